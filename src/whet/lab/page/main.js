// From the first look at the browser to the last answer: boot, secure context, adapter, device, then what the server asks.
import { Device } from "./device.js";
import { Replaced, Talk } from "./talk.js";
import * as view from "./view.js";

const MARKER = "whet-lab-marker";
const NAME = "whet-lab-name";
const LOG_LINES = 40;
const log = [];

const note = (text) => {
    log.push(`${Math.round(performance.now())} ms: ${text}`.slice(0, 400));
    if (log.length > LOG_LINES) log.shift();
};

/** What the link carries: the token behind `#`, and knobs one by one or as one base64 `cfg`, for farms that cut links. */
function settings() {
    const given = Object.fromEntries(new URLSearchParams(location.search));
    if (given.cfg) {
        try {
            const text = atob(given.cfg.replace(/-/g, "+").replace(/_/g, "/"));
            Object.assign(given, JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (c) => c.charCodeAt(0)))));
        } catch {
            note("the cfg of this link cannot be read");
        }
    }
    const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? given.token ?? sessionStorage.getItem("token");
    if (token) {
        // Not in the address bar, not in the history.
        sessionStorage.setItem("token", token);
        history.replaceState(null, "", location.pathname);
    }
    return { ...given, token };
}

/** A comparison that the link asks for, once per tab: `?variants=walker,coop:g=8,slots=4&n=2^10`, perhaps `&engine=`. */
function wish({ engine, variants, n }) {
    if (!variants || !n) return null;
    // A comma before `name=` belongs to the knobs of one variant.
    const named = Array.isArray(variants) ? variants : String(variants).split(/,(?![a-z0-9_]+=)/);
    const asked = { ...(engine && { engine: String(engine) }), variants: named.map((one) => String(one).trim()), n: String(n) };
    const text = JSON.stringify(asked);
    if (sessionStorage.getItem("wished") === text) return null;
    sessionStorage.setItem("wished", text);
    return asked;
}

const hex = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

/** One run id and key per tab; a reload keeps them. */
function identity() {
    const kept = JSON.parse(sessionStorage.getItem("identity") ?? "null") ?? { run: hex(), key: hex() };
    sessionStorage.setItem("identity", JSON.stringify(kept));
    return kept;
}

function guessedName() {
    const agent = navigator.userAgent;
    const browser = /Firefox|Edg|OPR|Chrome|Safari/.exec(agent)?.[0] ?? "browser";
    const system = /Android|iPhone|iPad|Windows|Mac OS|CrOS|Linux/.exec(agent)?.[0] ?? "device";
    return `${browser}-${system}`.toLowerCase();
}

// Before anything risky it is written down what it is; whoever loads the page after a crash finds it.
const marker = (run) => `${MARKER}:${run}`;
const mark = (run, arm) => localStorage.setItem(marker(run), arm);
const unmark = (run) => localStorage.removeItem(marker(run));

const visible = () =>
    new Promise((done) => {
        const look = () => {
            if (document.hidden) return;
            document.removeEventListener("visibilitychange", look);
            done();
        };
        document.addEventListener("visibilitychange", look);
        look();
    });

async function obey(device, talk, { header, parts }) {
    const { kind, ticket, arm } = header;
    const stage = (text) => {
        talk.stage = text.slice(0, 400);
        view.stage(text);
        note(text);
    };
    if (header.view) view.show(header.view);
    if (document.hidden) {
        stage("paused: this tab is hidden");
        talk.beat();
        await visible();
    }
    let hidden = false;
    const watch = () => (hidden ||= document.hidden);
    document.addEventListener("visibilitychange", watch);
    const risky = kind === "prepare" || kind === "turn";
    if (risky) mark(talk.identity.run, arm);
    try {
        if (header.reset) device.close();
        if (kind === "prepare") return { header: { ticket, ...(await device.prepare(header, parts, stage)), hidden } };
        if (kind === "turn") {
            stage(`running ${arm}`);
            const [told, read] = await device.turn(header, parts);
            return { header: { ticket, ...told, hidden }, parts: read };
        }
        if (kind === "reference") return { header: { ticket, ...(await device.reference()), hidden } };
        if (kind === "open") return { header: { ticket, facts: await device.facts() } };
        stage(header.view?.note ?? "ready; waiting for work");
        return { header: { ticket } };
    } catch (error) {
        const fault = (await device.faultOf(error)).toJSON();
        stage(`${arm ? `${arm}: ` : ""}${fault.message}`);
        const { kind: what, message, kernel, line, number } = fault;
        const told = { kind: what, message: String(message).slice(0, 4000) };
        if (kernel) told.kernel = String(kernel).slice(0, 64);
        for (const [name, value] of Object.entries({ line, number })) if (Number.isInteger(value)) told[name] = value;
        return { header: { ticket, fault: told, log: log.slice(-LOG_LINES), hidden } };
    } finally {
        document.removeEventListener("visibilitychange", watch);
        if (risky) unmark(talk.identity.run);
    }
}

/** The screen stays on while there is work; browsers without that go on without it. */
const wakeLock = {
    held: null,
    async take() {
        this.held ??= await navigator.wakeLock?.request("screen").catch(() => null);
        this.held?.addEventListener?.("release", () => (this.held = null), { once: true });
    },
};

async function main() {
    view.stage("looking at this browser");
    if (!globalThis.isSecureContext) return view.problem("insecure");
    if (!navigator.gpu) return view.problem("no-webgpu");
    const given = settings();
    const device = new Device();
    view.stage("asking for an adapter");
    let facts;
    try {
        facts = await device.facts();
    } catch (error) {
        note(String(error));
        return view.problem("no-adapter", error.message);
    }
    const own = identity();
    const name = given.name ?? localStorage.getItem(NAME) ?? guessedName();
    const talk = new Talk({ token: given.token, identity: own, name: name.slice(0, 64), told: view.connection });
    talk.facts = facts;
    const crashed = (localStorage.getItem(marker(own.run)) ?? "").slice(0, 64);
    talk.crashed = crashed;
    talk.wish = wish(given);
    unmark(own.run);
    addEventListener("pagehide", () => unmark(own.run));
    view.facts(facts);
    view.onRename((wanted) => {
        localStorage.setItem(NAME, wanted);
        sessionStorage.removeItem("identity");
        location.replace(location.pathname);
    });
    try {
        await talk.connect();
        view.named(talk.name);
        talk.keepBeating();
        view.stage(talk.noWish || (crashed ? `going on after ${crashed} took the page down` : "ready; waiting for work"));
        for (let answer = null; ; ) {
            const command = await talk.next(answer);
            await wakeLock.take();
            // Given up by the server: the device is closed, which ends whatever waits for it.
            talk.working(command.header.ticket, () => device.close());
            answer = await obey(device, talk, command);
            talk.working(null);
            view.named(talk.name);
        }
    } catch (error) {
        note(String(error));
        view.problem(error instanceof Replaced ? "replaced" : "refused", error.message);
    }
}

main();
