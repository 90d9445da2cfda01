// What a person sees. Text only ever enters as text.

const at = (id) => document.getElementById(id);

function made(kind, text, name = "") {
    const one = document.createElement(kind);
    one.textContent = text;
    if (name) one.className = name;
    return one;
}

const PROBLEMS = {
    insecure: [
        "This page is not in a secure context, so the browser hides WebGPU.",
        "Nothing is wrong with the driver. Open the page in one of these ways:",
        [
            "on the machine that runs whet lab: the link with localhost",
            "on a phone by USB: whet lab --usb, then the link with localhost on the phone",
            "over the local network: the https link or the code that whet lab --lan shows",
        ],
    ],
    "no-webgpu": [
        "This browser has no WebGPU.",
        "What helps:",
        ["a current Chrome or Edge, Safari 26, or Firefox 141 or newer", "on Linux: chrome://flags, Unsafe WebGPU Support"],
    ],
    "no-adapter": [
        "The browser has WebGPU, but gave no adapter.",
        "What helps:",
        ["close other tabs that use the GPU and load this page again", "look at chrome://gpu for what is switched off"],
    ],
    refused: ["The server does not let this page in.", "What helps:", ["scan the code, or open the link that whet lab shows now"]],
    replaced: ["This page was opened once more elsewhere, and goes on there.", "", []],
};

export function problem(kind, detail = "") {
    const [what, lead, steps] = PROBLEMS[kind];
    at("problem").hidden = false;
    at("problem-what").textContent = what;
    at("problem-detail").textContent = detail;
    at("problem-lead").textContent = lead;
    at("problem-steps").replaceChildren(...steps.map((step) => made("li", step)));
    stage("stopped");
}

export function stage(text) {
    if (at("stage").textContent !== text) at("stage").textContent = text;
}

export function connection(text) {
    at("connection").textContent = text;
    at("connection").classList.toggle("lost", text !== "connected");
}

export function named(name) {
    if (at("device-name").textContent !== name) {
        at("device-name").textContent = name;
        at("next-command").textContent = `whet ab msm walker coop --n 2^10 --device lab:${name}`;
        at("next").hidden = false;
    }
}

export function onRename(rename) {
    at("rename").hidden = false;
    at("rename").addEventListener("submit", (event) => {
        event.preventDefault();
        const wanted = at("new-name").value.trim();
        if (wanted) rename(wanted);
    });
}

export function facts(found) {
    const adapter = [found.vendor, found.architecture, found.device, found.description].filter(Boolean).join(" ");
    const limits = found.limits;
    const mib = (bytes) => `${Math.round(bytes / 1048576)} MiB`;
    const rows = [
        ["adapter", `${adapter || "not told"}${found.fallback ? " (software)" : ""}`],
        ["its own clock", found.timestamps ? "yes, for every pass" : "none; times are the page's"],
        ["the page's clock", `steps of ${found.clock_step_ns >= 1000 ? `${Math.round(found.clock_step_ns / 1000)} µs` : `${found.clock_step_ns} ns`}`],
        ["largest binding", mib(limits.maxStorageBufferBindingSize)],
        ["workgroup", `${limits.maxComputeInvocationsPerWorkgroup} threads, ${limits.maxComputeWorkgroupStorageSize / 1024} KiB`],
        ["features", found.features.join(", ") || "none"],
    ];
    at("facts").replaceChildren(...rows.flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
    at("device").hidden = false;
}

const time = (ns) => {
    if (ns === null || ns === undefined) return "—";
    if (ns >= 1e9) return `${(ns / 1e9).toPrecision(4)} s`;
    if (ns >= 1e6) return `${(ns / 1e6).toPrecision(4)} ms`;
    return `${(ns / 1e3).toPrecision(4)} µs`;
};

/** What the server tells about the run: a title, a note, a row per variant, and what to do next. */
export function show({ title, note, share, rows, next }) {
    at("run").hidden = false;
    if (title) at("run-title").textContent = title;
    if (note) at("run-note").textContent = note;
    at("run-share").value = share ?? 0;
    if (rows?.length) at("rows").replaceChildren(...rows.map(row));
    const red = (rows ?? []).filter((one) => one.gate === "red");
    if (rows?.length) {
        at("reds").hidden = !red.length;
        at("red-list").replaceChildren(...red.map((one) => made("li", `${one.variant}: ${one.why}`)));
    }
    if (next) {
        at("next").hidden = false;
        at("next-lead").textContent = next.lead;
        at("next-command").textContent = next.command;
    }
}

function row({ variant, gate, time_ns, ratio, low, high, verdict }) {
    // A phone lays rows out as blocks; the roles keep them a table for a screen reader.
    const line = document.createElement("tr");
    line.setAttribute("role", "row");
    const head = made("th", variant);
    head.scope = "row";
    head.setAttribute("role", "rowheader");
    const cell = (...words) => {
        const one = made("td", ...words);
        one.setAttribute("role", "cell");
        return one;
    };
    const interval = ratio ? `${ratio.toFixed(3)}${low ? ` (${low.toFixed(3)} to ${high.toFixed(3)})` : ""}` : "";
    line.append(
        head,
        cell(gate, `gate ${gate}`),
        cell(gate === "red" ? "no time" : time(time_ns), "number"),
        cell(gate === "red" ? "" : interval, "ratio"),
        cell(verdict ?? "", `verdict ${(verdict ?? "").toLowerCase()}`),
    );
    return line;
}
