/* files.mjs: HTML reports, opened as files. */
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import os from "node:os";
import path from "node:path";
import {pathToFileURL} from "node:url";
import {check, close, narrow, open, picture, program, same, test, whole} from "./page.mjs";

/* Exit status 1 is an answer: it does not fit. */
function report(folder, name, words) {
	const file = path.join(folder, name + ".html");
	try {
		execFileSync(program, [...words, "--html", file], {stdio: ["ignore", "ignore", "inherit"]});
	} catch (error) {
		if (error.status !== 1) throw error;
	}
	return file;
}

const HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">\u2028${x}";

async function withFolder(run) {
	const folder = mkdtempSync(path.join(os.tmpdir(), "lockstep-browser-"));
	try {
		await run(folder);
	} finally {
		rmSync(folder, {recursive: true});
	}
}

/* Nothing on its console, nothing fetched, no wider than the window. */
async function look(browser, file, name, options, more) {
	const url = pathToFileURL(file).href, page = await open(browser, options, url);
	await page.goto(url);
	await page.waitForSelector(".ls-panel");
	await whole(page);
	if (more) await more(page);
	check(await narrow(page), name + " is wider than the window");
	await picture(page, name, {fullPage: true});
	same(page.wrong, [], name + ": on the console");
	await close(page);
}

test("files of reports: light and dark, wide and narrow, on paper", (browser) => withFolder(async (folder) => {
	const job = ["predict", "--model", "llama3.1-70b", "--gpu", "h100-sxm", "--gpus", "1024", "--tp", "4", "--pp", "8", "--gbs", "512", "--seq", "8192"];
	const tables = path.join(folder, "tables.csv"), graph = path.join(folder, "graph.json");
	writeFileSync(tables, "name,rows,dim,pooling\na,100000,64,2\nb,5000,32,1\n");
	execFileSync(program, ["predict", "--model", "llama3.1-8b", "--gpu", "h100-sxm", "--gpus", "8", "--tp", "2", "--gbs", "16", "--graph", graph],
		{stdio: "ignore"});
	const files = {
		predict: report(folder, "predict", job),
		plan: report(folder, "plan", ["plan", "--model", "llama3.1-8b", "--gpu", "h100-sxm", "--gpus", "8,16", "--gbs", "64", "--seq", "4096"]),
		explain: report(folder, "explain", ["explain", "tests/data/trace_small.json"]),
		before: report(folder, "before", ["explain", "tests/data/trace_before.json", "--gpu", "a100-sxm-80"]),
		sweep: report(folder, "sweep", ["predict", "--model", "llama3.1-8b", "--gpu", "h100-sxm", "--gpus", "8,16", "--tp", "1,2,3", "--gbs", "64"]),
		rent: report(folder, "rent", ["rent", "--model", "llama3.1-8b", "--gbs", "64", "--tokens", "1G", "--provider", "aws"]),
		shard: report(folder, "shard", ["shard", tables, "--gpu", "a100-sxm-80", "--gpus", "2"]),
		whatif: report(folder, "whatif", ["whatif", graph, "--gpu", "h100-sxm", "--set", "nic=2x,4x", "--set", "gpu=b200"]),
	};
	check(readFileSync(files.predict).length < 1e6, "more than 1 MB");
	for (const [name, file] of Object.entries(files)) {
		await look(browser, file, "file-" + name + "-1280", {});
		await look(browser, file, "file-" + name + "-400-dark", {viewport: {width: 400, height: 900}, colorScheme: "dark"});
	}
	await look(browser, files.predict, "file-predict-paper", {}, (page) => page.emulateMedia({media: "print"}));
}));

test("a row of a sweep shows its command; rows with long texts are cards on narrow screens", (browser) => withFolder(async (folder) => {
	const file = report(folder, "sweep", ["predict", "--model", "llama3.1-8b", "--gpu", "h100-sxm", "--gpus", "8", "--tp", "1,2,3,4", "--gbs", "64"]);
	await look(browser, file, "file-sweep-row", {}, async (page) => {
		const rows = await page.$$(".ls-panel-table tbody tr");
		same(rows.length, 4, "rows");
		same(await page.$$eval(".ls-panel-table .ls-best", (all) => all.length), 1, "best rows");
		for (const [row, tp] of [[1, "2"], [3, "4"], [0, "1"]]) {
			await rows[row].click();
			const text = await page.textContent(".ls-panel-table .ls-command");
			check(text.startsWith("lockstep predict") && text.includes(" --tp " + tp + " "), "the command of tp " + tp + ": " + text);
		}
		await rows[2].click(); /* refused: it has none */
		check((await page.textContent(".ls-panel-table .ls-command")).includes(" --tp 1 "), "a refused row has a command");
		await page.click(".ls-panel-scatter .ls-pick");
		check((await page.textContent(".ls-panel-scatter .ls-command")).startsWith("lockstep predict"), "a point shows its command");
	});
	await look(browser, file, "file-sweep-cards", {viewport: {width: 400, height: 900}}, async (page) => {
		const scrolls = await page.$$eval(".ls-cards", (all) => all.map((t) => t.tBodies[0].scrollWidth > t.parentNode.clientWidth));
		check(scrolls.length > 0, "no table of cards");
		check(!scrolls.includes(true), "cards are wider than their table");
	});
}));

test("names in traces run no script", (browser) => withFolder(async (folder) => {
	const events = [];
	for (let i = 0; i < 20; i++) {
		const ts = 1000 * i;
		events.push({ph: "X", cat: "cpu_op", name: HOSTILE, pid: 1, tid: 1, ts, dur: 300, args: {}},
			{ph: "X", cat: "cuda_runtime", name: "cudaLaunchKernel", pid: 1, tid: 1, ts: ts + 10, dur: 20, args: {correlation: i}},
			{ph: "X", cat: "kernel", name: HOSTILE + (i % 3), pid: 0, tid: 7, ts: ts + 100, dur: 500, args: {stream: 7, correlation: i, device: 0}});
	}
	const trace = path.join(folder, "trace.json");
	writeFileSync(trace, JSON.stringify({traceEvents: events, deviceProperties: [{id: 0, name: HOSTILE}], trace_name: HOSTILE}));
	const file = report(folder, "hostile", ["explain", trace]);
	await look(browser, file, "file-hostile", {}, async (page) => {
		const text = await page.evaluate(() => document.body.innerText);
		check(text.includes("</script><script>"), "the name is shown as it is");
		check(await page.title() !== "broken", "script ran");
		same(await page.$$eval("img", (all) => all.length), 0, "images");
	});
}));
