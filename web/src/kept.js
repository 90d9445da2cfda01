// Small facts kept between visits, in IndexedDB where there is one and it may be used, else for as long as the page lives.

const DATABASE = "whet-msm";
const STORE = "kept";
/** @type {Map<string, unknown>} */
const here = new Map();

/**
 * @param {string} key
 * @returns {Promise<any>}
 */
export async function recall(key) {
    if (here.has(key)) return here.get(key);
    try {
        return await transaction("readonly", (store) => store.get(key));
    } catch {
        return undefined;
    }
}

/**
 * @param {string} key
 * @param {unknown} value   undefined forgets it
 */
export async function keep(key, value) {
    if (value === undefined) here.delete(key);
    else here.set(key, value);
    try {
        await transaction("readwrite", (store) => (value === undefined ? store.delete(key) : store.put(value, key)));
    } catch {
        // A page that may not store anything asks again next time.
    }
}

/**
 * @param {IDBTransactionMode} mode
 * @param {(store: IDBObjectStore) => IDBRequest} use
 */
async function transaction(mode, use) {
    const database = await new Promise((done, failed) => {
        const opening = indexedDB.open(DATABASE, 1);
        opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
        opening.onsuccess = () => done(opening.result);
        opening.onerror = () => failed(opening.error);
        opening.onblocked = () => failed(new Error("blocked"));
    });
    try {
        return await new Promise((done, failed) => {
            const asked = use(database.transaction(STORE, mode).objectStore(STORE));
            asked.onsuccess = () => done(asked.result);
            asked.onerror = () => failed(asked.error);
        });
    } finally {
        database.close();
    }
}
