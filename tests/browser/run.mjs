/* run.mjs: all browser tests, or by turns every second (LOCKSTEP_TURN). Words: parts of names of those that are run. */
import {launch, tests} from "./page.mjs";
import "./serve.mjs";
import "./files.mjs";
import "./form.mjs";
import "./questions.mjs";
import "./paste.mjs";

const words = process.argv.slice(2);
const turn = words.length || process.env.LOCKSTEP_LONG ? "" : process.env.LOCKSTEP_TURN;
const chosen = tests.filter((t, number) => words.length ? words.some((word) => t.name.includes(word)) : !turn || number % 2 === turn % 2);
const browser = await launch();
let passed = 0, failed = 0;

async function one({name, run}) {
	const begin = performance.now();
	try {
		await run(browser);
		passed++;
		console.log("ok   %s (%s s)", name, ((performance.now() - begin) / 1000).toFixed(1));
	} catch (error) {
		failed++;
		console.log("FAIL %s\n%s", name, error.stack.replace(/^/gm, "    "));
	}
}

/* Two at a time: pages, servers and folders are each test's own. */
async function work() {
	while (chosen.length) await one(chosen.shift());
}
await Promise.all([work(), work()]);
await browser.close();
console.log("browser tests: %d passed, %d failed, 0 skipped", passed, failed);
process.exitCode = failed || !passed ? 1 : 0;
