// The conversation with the server: same origin, one request at a time, every one of them repeated until it is answered.
import { pack, unpack } from "./wire.js";

const BEAT_MS = 2000;
const LONGEST_PAUSE_MS = 4000;
const GIVEN_UP = 205;
// Too slow, or too many at once: the same again later.
const LATER = new Set([408, 429]);

/** This page was opened once more: the newer one goes on. */
export class Replaced extends Error {}
/** The server does not want this page, and says why. */
export class Refused extends Error {}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Talk {
    /** `told` hears "connected" or what is wrong, in words. */
    constructor({ token, identity, name, told }) {
        Object.assign(this, { token, identity, name, told });
        this.seat = null;
        this.stage = "connected";
        this.facts = {};
        this.crashed = "";
        this.wish = null;
        this.noWish = "";
        this.ticket = null;
        this.giveUp = () => null;
    }

    /** What the page is busy with, and what ends that where nobody waits for it any more. */
    working(ticket, giveUp = () => null) {
        Object.assign(this, { ticket, giveUp });
    }

    /** Says hello, as long as it takes. */
    async connect() {
        for (let wait = 250; ; wait = Math.min(2 * wait, LONGEST_PAUSE_MS)) {
            const { run, key } = this.identity;
            const { name: wanted, facts, crashed, wish } = this;
            const said = { run, key, name: wanted, facts, crashed, ...(wish && { wish }) };
            const answer = await this.#post("hello", said).catch(() => null);
            if (answer?.ok) {
                const { name, seat } = await answer.json();
                Object.assign(this, { name, seat, crashed: "", wish: null });
                this.told("connected");
                return;
            }
            if (answer?.status === 400 && wish) {
                // The page is welcome without it.
                Object.assign(this, { wish: null, noWish: "what the link asks for cannot be run" });
                continue;
            }
            if (answer && !LATER.has(answer.status) && answer.status < 500) throw new Refused(await answer.text());
            this.told("the server cannot be reached; trying again");
            await pause(wait);
        }
    }

    /** Sends the answer to the last command, if there is one, and waits for the next. */
    async next(answer) {
        for (let wait = 250; ; ) {
            const { header = {}, parts = {} } = answer ?? {};
            const got = await this.#post("next", { ...header, seat: this.seat }, parts).catch(() => null);
            if (got?.status === 200) {
                this.told("connected");
                return unpack(await got.arrayBuffer());
            }
            if (got?.status === 204 || got?.status === 409) {
                // Heard, or no longer wanted: nothing to send again.
                answer = null;
            } else if (got?.status === 410) {
                answer = null;
                await this.connect();
            } else if (got?.status === 423) {
                throw new Replaced(await got.text());
            } else if (got && got.status < 500 && !LATER.has(got.status) && answer) {
                const { ticket } = answer.header;
                answer = { header: { ticket, fault: { kind: "device", message: `refused: ${await got.text()}` } } };
            } else {
                if (!got) this.told("the server cannot be reached; trying again");
                await pause(wait);
                wait = Math.min(2 * wait, LONGEST_PAUSE_MS);
            }
        }
    }

    /** Signs of life from now on, whatever the page is doing. */
    keepBeating() {
        setInterval(() => this.beat(), BEAT_MS);
        document.addEventListener("visibilitychange", () => this.beat());
        addEventListener("pagehide", () => this.beat({ leaves: true }));
        addEventListener("pageshow", () => this.beat());
    }

    beat(more = {}) {
        if (!this.seat) return;
        const { seat, stage, ticket } = this;
        const said = { seat, stage, hidden: document.hidden, ...(ticket && { ticket }), ...more };
        const heard = (answer) => {
            if (answer.status === GIVEN_UP && ticket && ticket === this.ticket) this.giveUp();
        };
        this.#post("beat", said).then(heard, () => null);
    }

    #post(path, header, parts) {
        const headers = { "content-type": "application/octet-stream" };
        if (this.token) headers.authorization = `Bearer ${this.token}`;
        if (this.seat) headers["x-whet-seat"] = this.seat;
        const body = pack(header, parts);
        return fetch(`api/${path}`, { method: "POST", headers, body, cache: "no-store", keepalive: path === "beat" });
    }
}
