// Commits to a polynomial with the powers of a .ptau. Only the points that are needed are read from the file.
import { Msm, describeFile } from "@whet/msm";

const element = (id) => document.getElementById(id);
const variant = new URLSearchParams(location.search).get("variant") ?? "auto";
let control = null;

function say(text, wrong = false) {
    element("status").textContent = text;
    element("status").classList.toggle("wrong", wrong);
}

async function commit(file, text, signal) {
    const coefficients = text.split(/[\s,]+/).filter(Boolean).map((one) => BigInt(one));
    const { power, sections } = await describeFile(file);
    say(`${file.name}: ${sections.tau} powers (2^${power}). Preparing the device…`);
    const began = performance.now();
    const msm = await Msm.fromFile(file, { section: "tau", n: Math.min(coefficients.length, sections.tau), variant, signal });
    try {
        const ready = performance.now();
        const point = await msm.sum(coefficients, { signal });
        const done = performance.now();
        const { vendor, architecture } = msm.adapter;
        return {
            x: `0x${point.x.toString(16)}`,
            y: `0x${point.y.toString(16)}`,
            points: String(msm.n),
            device: `${vendor} ${architecture}, ${msm.chosen.variant}`,
            time: `${Math.round(done - ready)} ms, after ${Math.round(ready - began)} ms to prepare`,
        };
    } finally {
        msm.close();
    }
}

element("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    control = new AbortController();
    element("answer").hidden = true;
    element("commit").disabled = true;
    element("stop").disabled = false;
    try {
        const answer = await commit(element("file").files[0], element("coefficients").value, control.signal);
        for (const [id, text] of Object.entries(answer)) element(id).textContent = text;
        element("answer").hidden = false;
        say("Done.");
    } catch (error) {
        say(error.name === "AbortError" ? "Stopped." : error.message, error.name !== "AbortError");
    } finally {
        element("commit").disabled = false;
        element("stop").disabled = true;
    }
});
element("stop").addEventListener("click", () => control?.abort());
