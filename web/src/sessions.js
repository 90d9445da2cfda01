// One device for all sums of a page: they share it and its pipelines. It is given back with the last of them.
import { Session } from "./generated/runner.js";

/** @typedef {{ key: string, gpu: GPU | undefined, opening: Promise<Session>, users: number }} Shared */

/** @type {Set<Shared>} */
const open = new Set();
/** @type {WeakMap<Session, Shared>} */
const users = new WeakMap();

/**
 * @param {GPU | undefined} gpu
 * @param {GPURequestAdapterOptions | undefined} options
 * @returns {Promise<Session>}
 */
export async function acquire(gpu, options) {
    const key = JSON.stringify(options ?? {});
    let shared = [...open].find((one) => one.gpu === gpu && one.key === key);
    if (!shared) {
        shared = { key, gpu, opening: Session.open(gpu, options), users: 0 };
        const mine = shared;
        open.add(mine);
        // One that fails or is lost serves nobody who comes later.
        mine.opening.then((session) => session.device.lost.then(() => open.delete(mine))).catch(() => open.delete(mine));
    }
    shared.users++;
    try {
        const session = await shared.opening;
        users.set(session, shared);
        return session;
    } catch (error) {
        shared.users--;
        throw error;
    }
}

/** Closes the device if nobody else uses it.
 * @param {Session} session */
export function giveBack(session) {
    const shared = users.get(session);
    if (!shared || --shared.users) return;
    open.delete(shared);
    session.close();
}

/** No sum that comes later gets this device; who has it keeps it.
 * @param {Session} session */
export function shun(session) {
    const shared = users.get(session);
    if (shared) open.delete(shared);
}
