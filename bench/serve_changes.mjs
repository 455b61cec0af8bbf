/* serve_changes.mjs: how long a change of a control takes until the new picture stands on the screen, over many changes.
 *
 *     tests/browser/run.sh build/release/lockstep --run bench/serve_changes.mjs [CHANGES [PAUSE]]
 *
 * Time is taken in the page: from the event of the control to the second frame after the panels in view were drawn, so that
 * layout and painting are in it. Panels out of view are drawn later; further predictions (other rates, changes that would
 * make it fit) come with a second answer, where PAUSE milliseconds between changes leave time for it. The changes go through
 * layouts, batches, GPUs, models and precisions, those that do not fit too. */
import {readFileSync} from "node:fs";
import {close, launch, open, serve, start} from "../tests/browser/page.mjs";

const changes = Number(process.argv[2] || 1000), pause = Number(process.argv[3] || 0);
const server = await serve(), browser = await launch(), page = await open(browser, {}, new URL(server.url).origin);
await start(page, server.url);

const times = await page.evaluate(async ([changes, pause]) => {
	const values = {
		tp: ["4", "8", "2", "1"], pp: ["8", "4", "2", "16"], gbs: ["128", "256", "512", "1024"], gpus: ["64", "128", "256", "1024"],
		recompute: ["none", "full", "selective"], dtype: ["bf16", "fp8"], seq: ["8192", "4096"], gpu: ["h100-sxm", "h200", "b200", "a100-sxm-80"],
		model: ["llama3.1-70b", "llama3.1-8b", "mixtral-8x7b", "gpt-175b"], zero: ["1", "2", "3"], mbs: ["1", "2"],
	};
	const names = Object.keys(values), list = [];
	const frame = () => new Promise((go) => requestAnimationFrame(go));
	for (let i = 0; i < changes; i++) {
		/* A fixed walk: 7919 is prime to the numbers of names and values. */
		const name = names[(i * 7919) % names.length], input = document.getElementById("f-" + name), all = values[name];
		const next = all[(Math.max(0, all.indexOf(input.value)) + 1) % all.length];
		const shown = new Promise((go) => document.addEventListener("lockstep-shown", go, {once: true}));
		const begin = performance.now();
		input.value = next;
		input.dispatchEvent(new Event("input", {bubbles: true}));
		await shown;
		await frame();
		await frame();
		list.push({ms: performance.now() - begin, what: name + "=" + next, said: document.getElementById("message").textContent});
		if (pause) await new Promise((go) => setTimeout(go, pause));
	}
	return list;
}, [changes, pause]);

const memory = /VmHWM:\s*(\d+)/.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))[1];
await close(page);
await browser.close();
await server.stop();
function report(name, list) {
	const ms = list.map((t) => t.ms).sort((a, b) => a - b);
	const at = (share) => ms[Math.min(ms.length - 1, Math.floor(share * ms.length))].toFixed(1) + " ms";
	const most = list.reduce((a, b) => (b.ms > a.ms ? b : a));
	console.log("%s: %d changes, p50 %s, p90 %s, p99 %s, slowest %s (%s)", name, ms.length, at(0.5), at(0.9), at(0.99), at(1), most.what);
}
report("all", times);
report("predicted", times.filter((t) => !t.said));
if (times.some((t) => t.said)) report("refused", times.filter((t) => t.said));
console.log("server: %s MiB at most", (memory / 1024).toFixed(1));
