/* serve.mjs: the page of lockstep serve in a real browser. */
import {readFileSync} from "node:fs";
import {check, close, LAID_OUT, narrow, open, picture, same, says, serve, shown, start, test, whole, withClipboard} from "./page.mjs";

const origin = (server) => new URL(server.url).origin;

async function withPage(browser, options, run, ...flags) {
	const server = await serve(...flags), page = await open(browser, options, origin(server));
	try {
		await run(page, server);
		same(page.wrong, [], "on the console");
	} finally {
		await close(page);
		await server.stop();
	}
}

test("the page loads, light and dark, wide and narrow", async (browser) => {
	const server = await serve(), grounds = new Set();
	try {
		for (const width of [1280, 400]) for (const colorScheme of ["light", "dark"]) {
			const page = await open(browser, {viewport: {width, height: 900}, colorScheme}, origin(server));
			await start(page, server.url);
			await says(page, "Fits");
			const kinds = await page.$$eval("#prediction .ls-panel", (all) => all.length);
			check(kinds >= 9, kinds + " panels");
			await page.waitForSelector("#prediction .ls-panel-gantt .ls-lane", {state: "attached"});
			check(await narrow(page), "wider than the window of " + width);
			check(!page.url().includes("token"), "the token leaves the address");
			grounds.add(await page.evaluate(() => getComputedStyle(document.body).backgroundColor));
			await picture(page, `predict-${width}-${colorScheme}`);
			await picture(page, `predict-${width}-${colorScheme}-all`, {fullPage: true});
			same(page.wrong, [], "on the console");
			await close(page);
		}
		same(grounds.size, 2, "grounds of light and dark");
	} finally {
		await server.stop();
	}
});

test("controls change verdict, breakdown, memory, Gantt and address; a link reproduces them", (browser) => withPage(browser, {}, async (page, server) => {
	await start(page, server.url);
	const before = await page.evaluate(() => document.getElementById("prediction").innerHTML);
	await shown(page, () => page.fill("#f-tp", "1"));
	await says(page, "Does not fit");
	check(before !== await page.evaluate(() => document.getElementById("prediction").innerHTML), "the report changed");
	await shown(page, () => page.fill("#f-tp", "8"));
	await shown(page, () => page.selectOption("#f-gpu", "h200"));
	await shown(page, () => page.selectOption("#f-recompute", "full"));
	await shown(page, () => page.click("[title='Number of GPUs: double']"));
	same(await page.inputValue("#f-gpus"), "128");
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--gpus 128"));
	await whole(page);
	const command = await page.textContent("#prediction .ls-command");
	for (const part of ["--gpu h200", "--gpus 128", "--tp 8", "--recompute full"]) check(command.includes(part), part + " in " + command);
	for (const part of ["gpu=h200", "gpus=128", "tp=8", "recompute=full"]) check(page.url().includes(part), part + " in " + page.url());
	const other = await page.context().newPage();
	await start(other, page.url());
	same(await other.inputValue("#f-gpus"), "128");
	same(await other.textContent("#prediction .ls-command"), command);
	await other.close();
}));

test("what is in view comes first, all of it in the end", (browser) => withPage(browser, {}, async (page, server) => {
	const titles = () => page.$$eval("#prediction .ls-panel h3", (all) => all.map((h) => h.textContent));
	const kernel = () => page.textContent("#prediction .ls-panel:has(h3:text-is('Kernels')) tbody");
	await start(page, server.url);
	const all = await titles(), before = await kernel();
	const report = await page.evaluate(async () => {
		const {post} = await import("./serve-api.js");
		return post("predict?form=report", {model: "llama3.1-70b", gpu: "h100-sxm", gpus: 64, tp: 4, pp: 8, gbs: 128, seq: 8192});
	});
	const asked = report.panels.filter((p) => p.kind !== "verdict").map((p) => p.title);
	same(all.filter((t) => asked.includes(t)), asked, "panels in their order");
	check(asked.includes("Rates 10 % lower or higher"), "sensitivities come");
	check(await page.$$eval("#prediction .ls-numbers tbody tr", (rows) => rows.length) > 50, "numbers are there, folded");
	/* Nobody has looked at the kernels yet: they follow, and at once where the page is printed. */
	await page.evaluate(() => { window.changed = new Promise((go) => document.addEventListener("lockstep-shown", () => {
		const text = () => document.querySelector("#prediction .ls-end").closest("main").textContent;
		const old = text();
		dispatchEvent(new Event("beforeprint"));
		go([old, text()]);
	}, {once: true})); });
	await page.fill("#f-seq", "4096");
	const [late, printed] = await page.evaluate(() => window.changed);
	check(late.includes("--seq 8192") && !late.includes("--seq 4096"), "the command comes later");
	check(printed.includes("--seq 4096") && !printed.includes("--seq 8192"), "what is printed is complete");
	await whole(page);
	check(before !== await kernel(), "kernels follow");
	await shown(page, () => page.fill("#f-tp", "1"));
	check((await titles()).includes("Changes that would make it fit"), "a place for changes that make it fit");
	await whole(page);
	check(await page.locator("#prediction .ls-panel:has(h3:text-is('Changes that would make it fit')) tbody tr").count() > 0, "changes");
	check(!(await titles()).includes("Rates 10 % lower or higher"), "no sensitivities of what does not fit");
	await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
	await shown(page, () => page.fill("#f-tp", "8"));
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--tp 8"));
}));

test("of changes that follow one another the last one stands", (browser) => withPage(browser, {}, async (page, server) => {
	await start(page, server.url + LAID_OUT);
	await page.evaluate(() => {
		const input = document.getElementById("f-gbs");
		for (let i = 1; i <= 40; i++) {
			input.value = String(128 * i);
			input.dispatchEvent(new Event("input", {bubbles: true}));
		}
	});
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--gbs 5120"));
	await whole(page);
	check((await page.textContent("#prediction .ls-facts")).includes("2560 micro-batches"), "the layout");
	check(page.url().includes("gbs=5120"), "the address");
}));

test("what the lists of usual values hold, the server takes", (browser) => withPage(browser, {}, async (page, server) => {
	await start(page, server.url);
	const refused = await page.evaluate(async () => {
		const {KNOWN, BEGIN, MAIN} = await import("./serve-fields.js");
		const {post} = await import("./serve-api.js");
		const wrong = [];
		for (const name of MAIN) if (!document.getElementById("f-" + name)) wrong.push("no control of " + name);
		for (const [name, values] of Object.entries(KNOWN)) for (const value of values) {
			const body = {model: "llama3.1-8b", gpu: "b200", gpus: 8, gbs: 64, seq: 4096, [name]: value};
			if (name === "cp-kind") body.cp = 2;
			if (name === "dispatcher") Object.assign(body, {model: "mixtral-8x7b", ep: 8});
			if (name === "schedule") Object.assign(body, {pp: 4, gpus: 16, vp: value === "interleaved" ? 2 : undefined});
			await post("predict", body).catch((error) => { if (error.where === "--" + name) wrong.push(name + " " + value + ": " + error.message); });
		}
		return wrong;
	});
	same(refused, []);
}));

test("wrong values are said and marked, and leave the page alive", (browser) => withPage(browser, {}, async (page, server) => {
	await start(page, server.url);
	await shown(page, () => page.fill("#f-gpus", "0"));
	check((await page.textContent("#message")).startsWith("--gpus: "), "the message");
	check(await page.$("#f-gpus[aria-invalid]"), "the mark");
	same(await page.textContent("#f-gpus-why"), (await page.textContent("#message")).slice("--gpus: ".length), "at the control");
	same(await page.getAttribute("#f-gpus", "aria-describedby"), "f-gpus-why");
	check(await page.$("#glance.sv-stale"), "the answer at a glance is no longer the job's");
	await shown(page, () => page.fill("#f-gpus", "64"));
	await page.waitForFunction(() => document.getElementById("message").hidden && !document.querySelector("[aria-invalid]"));
	/* What does not go together is said at the control that was changed, whatever the message names. */
	const told = () => page.$$eval(".sv-why:not([hidden])", (all) => all.map((e) => e.id));
	await shown(page, () => page.fill("#f-tp", "3"));
	check((await page.textContent("#message")).startsWith("--gpus: 64 GPUs are not a multiple of tp * pp * cp"), "the message names GPUs");
	same(await told(), ["f-tp-why"], "said at the cause");
	check(await page.$("#f-gpus[aria-invalid][aria-describedby='f-tp-why']"), "the control that is named is marked too");
	await shown(page, () => page.fill("#f-tp", "4"));
	await shown(page, () => page.selectOption("#f-schedule", "interleaved"));
	same(await told(), ["f-schedule-why"], "a message that names no control");
	/* The same message after another change is still about the first. */
	await shown(page, () => page.fill("#f-seq", "4096"));
	same(await told(), ["f-schedule-why"], "the cause stays");
	await shown(page, () => page.selectOption("#f-schedule", ""));
	same(await told(), [], "nothing is wrong");
	quiet(page);
}));

test("a config that is dropped is predicted, and travels in the link", (browser) => withPage(browser, {}, async (page, server) => {
	const drop = (name, text) => page.evaluate(([name, text]) => {
		const data = new DataTransfer();
		data.items.add(new File([text], name, {type: "application/json"}));
		document.body.dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true}));
	}, [name, text]);
	await start(page, server.url);
	await shown(page, () => drop("config.json", readFileSync("tests/data/hf/llama-3-8b.json", "utf8")));
	await whole(page);
	check((await page.textContent("#prediction .ls-command")).includes("--model config.json"), "the command");
	const other = await page.context().newPage();
	await start(other, page.url());
	check((await other.textContent("#prediction .ls-command")).includes("--model config.json"), "the command of the link");
	await other.close();
	/* Whatever a name of a file or a key holds, it is shown as text. */
	await drop("<img src=x onerror=alert(1)>.json", '{"traceEvents": [{"name": "<img src=x onerror=alert(2)>", "ph": "X"}]}');
	await page.waitForFunction(() => !document.getElementById("message").hidden);
	same(await page.$$eval("img", (all) => all.length), 0, "images");
}));

test("tables sort and copy", (browser) => withPage(browser, {permissions: ["clipboard-read", "clipboard-write"]}, async (page, server) => {
	await start(page, server.url);
	const table = page.locator("#prediction .ls-panel:has(h3:text-is('Kernels'))");
	const column = () => table.locator("tbody tr td:first-child").allTextContents();
	const header = table.locator("th .ls-sort").first();
	await header.click();
	const up = await column();
	await header.click();
	const down = await column();
	check(up.length > 3, "rows");
	check(JSON.stringify(up) !== JSON.stringify(down), "the order turns");
	check(await table.locator("th[aria-sort]").count() > 0, "aria-sort");
	/* It is said for a moment: who looks from time to time may miss it. */
	await page.evaluate(() => new MutationObserver(() => { window.copied ||= document.body.innerText.includes("copied"); })
		.observe(document.body, {subtree: true, childList: true, characterData: true}));
	await withClipboard(async () => {
		await table.getByRole("button", {name: "Markdown"}).click();
		await page.waitForFunction(() => window.copied);
		const text = await page.evaluate(() => navigator.clipboard.readText());
		check(text.startsWith("|") && text.includes(up[0]), "Markdown: " + text.slice(0, 80));
		await table.getByRole("button", {name: "CSV"}).click();
		await page.waitForFunction((before) => navigator.clipboard.readText().then((now) => now !== before), text);
		check((await page.evaluate(() => navigator.clipboard.readText())).split("\n").length > up.length, "CSV");
	});
}));

test("a plan runs, can be cancelled, and a layout can be taken over", (browser) => withPage(browser, {}, async (page, server) => {
	await start(page, server.url);
	await page.keyboard.press("Tab");
	await page.focus("#tab-predict");
	await page.keyboard.press("ArrowRight");
	check(await page.isVisible("#view-compare"), "the next view by keyboard");
	await page.keyboard.press("ArrowRight");
	check(await page.isVisible("#view-plan"), "the view after it by keyboard");
	/* Enough to search that it runs for long, and cancelled in the moment in which it is seen at work: between the two
	   it could end. */
	await shown(page, () => page.fill("#f-gbs", "16384"));
	await page.fill("#plan-gpus", Array.from({length: 64}, (_, i) => 1024 * (i + 1)).join());
	await page.evaluate(() => new MutationObserver((_, seen) => {
		if (!/layouts/.test(document.getElementById("plan-said").textContent)) return;
		seen.disconnect();
		document.getElementById("plan-cancel").click();
	}).observe(document.getElementById("plan-said"), {subtree: true, childList: true, characterData: true}));
	await page.click("#plan-go");
	await page.waitForFunction(() => document.getElementById("message").textContent);
	await page.waitForFunction(() => document.getElementById("plan-progress").hidden);
	same(await page.textContent("#message"), "cancelled");
	await shown(page, () => page.fill("#f-gbs", "128"));
	await page.fill("#plan-gpus", "64");
	await page.click("#plan-go");
	await page.waitForSelector("#plan-answer .ls-panel");
	await whole(page, "#plan-answer");
	await picture(page, "plan", {fullPage: true});
	await shown(page, () => page.click("#plan-choices button >> nth=0"));
	check(await page.isVisible("#view-predict"), "the prediction");
	await says(page, "Fits");
	await page.setViewportSize({width: 400, height: 900});
	await page.click("#tab-plan");
	await page.waitForTimeout(100);
	check(await narrow(page), "wider than 400 pixels");
}, "--workers", "1"));

const LINE = "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --tensor-model-parallel-size 8 "
	+ "--pipeline-model-parallel-size 2 \\\n --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
	+ "--max-position-embeddings 2048 --vocab-size 32000 --micro-batch-size 2 --global-batch-size 64 --bf16 "
	+ "--use-distributed-optimizer --sequence-parallel --recompute-granularity selective --exit-interval 5";

/* Puts text where it would be typed, as a paste does. */
async function paste(page, text) {
	await page.evaluate(() => { document.getElementById("more").open = true; });
	await page.focus("#f-launch");
	await withClipboard(async () => {
		await page.evaluate((text) => navigator.clipboard.writeText(text), text);
		await page.keyboard.press("Control+V");
	});
}
/* Refusals are 400, which the browser notes. */
const quiet = (page) => page.wrong.splice(0, page.wrong.length, ...page.wrong.filter((w) => !w.includes("400 (Bad Request)")));
const clipboard = {permissions: ["clipboard-read", "clipboard-write"]};
const values = (page, names) => page.evaluate((names) => names.map((name) => document.getElementById("f-" + name).value), names);
const conflict = (page) => page.evaluate(() => document.getElementById("conflict").hidden ? "" : document.getElementById("conflict").textContent);

test("a launch line that is pasted fills the controls, and what it contradicts is said", (browser) => withPage(browser, clipboard, async (page, server) => {
	const names = ["model", "gpu", "gpus", "tp", "pp", "vp", "cp", "ep", "mbs", "gbs", "seq", "dtype", "recompute", "zero", "schedule",
		"sequence-parallel"];
	await start(page, server.url);
	const before = await values(page, names);
	await shown(page, () => paste(page, LINE));
	/* It says no GPU, and the page chooses none. */
	same(await values(page, names), ["", "", "32", "8", "2", "1", "1", "1", "2", "64", "2048", "bf16", "selective", "1", "1f1b", "on"]);
	same(await page.inputValue("#f-launch"), LINE);
	check((await page.textContent("#f-gpu-why")).startsWith("no GPU was given"), "what is missing");
	await shown(page, () => page.selectOption("#f-gpu", "h100-sxm"));
	same(await conflict(page), "");
	await whole(page);
	/* The line is enough: the command is the one that its user would type. */
	const command = await page.textContent("#prediction .ls-command");
	check(command.startsWith("lockstep predict --gpu h100-sxm -- torchrun --nproc_per_node 8 "), command);
	await picture(page, "launch-line", {fullPage: true});

	await shown(page, () => page.fill("#f-tp", "4"));
	same(await conflict(page), "The line says --tp 8; the control says --tp 4: the control is used.");
	check(await page.isHidden("#message"), "a control may contradict the line");
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--gpu h100-sxm --tp 4 -- "));
	await whole(page);
	const other = await page.context().newPage();
	await start(other, page.url());
	same(await conflict(other), "The line says --tp 8; the control says --tp 4: the control is used.");
	same(await other.textContent("#prediction .ls-command"), await page.textContent("#prediction .ls-command"));
	await other.close();
	await page.bringToFront();
	await shown(page, () => page.click("#reset"));
	same(await values(page, names), before);
	same(await conflict(page), "");
	quiet(page);
}));

test("a launch line is taken back with the controls that it filled", (browser) => withPage(browser, clipboard, async (page, server) => {
	const names = ["model", "gpus", "tp", "pp", "gbs", "seq", "zero", "launch"];
	await start(page, server.url);
	const before = await values(page, names);
	await shown(page, () => paste(page, LINE));
	check((await values(page, names)).join() !== before.join(), "the controls change");
	await shown(page, () => page.keyboard.press("Control+Z"));
	same(await values(page, names), before);
	same(await conflict(page), "");
	/* A choice that was made over a line goes on with an edit of it, and ends with another line. */
	await shown(page, () => paste(page, LINE));
	await shown(page, () => page.selectOption("#f-gpu", "h200"));
	await shown(page, () => page.fill("#f-gbs", "32"));
	await page.focus("#f-launch");
	await page.keyboard.press("Control+End");
	await shown(page, () => page.keyboard.type(" "));
	same(await values(page, ["gpu", "gbs", "tp"]), ["h200", "32", "8"]);
	await page.keyboard.press("Control+A");
	await shown(page, () => paste(page, LINE.replace("--tensor-model-parallel-size 8", "--tensor-model-parallel-size 4")));
	same(await values(page, ["gpu", "gbs", "tp"]), ["", "64", "4"]);
	quiet(page);
}));

test("a line that is refused leaves the controls alone", (browser) => withPage(browser, clipboard, async (page, server) => {
	const names = ["model", "gpus", "tp", "pp", "gbs", "seq"];
	await start(page, server.url);
	const before = await values(page, names);
	await page.evaluate(() => { document.getElementById("more").open = true; });
	for (const [line, said] of [["torchrun pretrain_retro.py --num-layers 4", "trains a network that is not modelled"],
		["torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size many", "--tensor-model-parallel-size: \"many\""],
		["lockstep predict --tpp 4", "--tpp: unknown option; did you mean --tp?"], ["hello", "launch line: no training program"]]) {
		await page.fill("#f-launch", "");
		await page.waitForFunction(() => document.getElementById("message").hidden);
		await paste(page, line);
		await page.waitForFunction((said) => document.getElementById("message").textContent.includes(said), said);
		check(await page.$("#f-launch[aria-invalid]"), "the mark");
		same(await values(page, names), before, line);
		same(await conflict(page), "");
	}
	await shown(page, () => page.fill("#f-launch", ""));
	check(await page.isHidden("#message"), "the message goes");
	quiet(page);
}));

test("a command that is pasted fills the controls, and its line stays", (browser) => withPage(browser, clipboard, async (page, server) => {
	await start(page, server.url);
	await shown(page, () => paste(page, "lockstep predict --model llama3.1-8b --gpu h200 --gpus 8 --tp 2 --no-sequence-parallel"));
	same(await values(page, ["model", "gpu", "gpus", "tp", "pp", "sequence-parallel", "launch"]), ["llama3.1-8b", "h200", "8", "2", "", "off", ""]);
	await shown(page, () => paste(page, "lockstep predict --gpu h200 --tp 4 -- " + LINE.replace("\\\n", "")));
	same(await values(page, ["model", "gpus", "tp", "pp"]), ["", "32", "4", "2"]);
	check((await page.inputValue("#f-launch")).startsWith("torchrun "), "the line");
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--gpu h200 --tp 4 -- torchrun"));
	/* What is trained is the line's: the network stays open, and a layout that plan finds is one of its own line. */
	await page.click("#tab-plan");
	await page.fill("#plan-gpus", "16");
	await page.click("#plan-go");
	await page.waitForSelector("#plan-choices button");
	await shown(page, () => page.click("#plan-choices button >> nth=0"));
	await says(page, "Fits");
	same(await values(page, ["model", "gpu", "gpus"]), ["", "h200", "16"]);
	same(await conflict(page), "");
}));

test("traces are explained", (browser) => withPage(browser, {}, async (page, server) => {
	await start(page, server.url);
	await page.click("#tab-explain");
	await page.setInputFiles("#explain-files", "tests/data/trace_small.json");
	await page.click("#explain-go");
	await page.waitForSelector("#explain-answer .ls-panel");
	await whole(page, "#explain-answer");
	check((await page.textContent("#explain-answer .ls-command")).includes("lockstep explain trace_small.json"), "the command");
	await picture(page, "explain", {fullPage: true});
	await page.setInputFiles("#explain-files", "tests/data/hf/gpt2.json");
	await page.click("#explain-go");
	await page.waitForFunction(() => document.getElementById("message").textContent.includes("gpt2.json"));
}));

test("without the token the page says what to do", (browser) => withPage(browser, {}, async (page, server) => {
	await page.goto(server.url.replace(/#.*/, ""));
	await page.waitForFunction(() => document.getElementById("message").textContent.includes("token"));
	/* The right address in the same page is enough. */
	await page.evaluate((hash) => { location.hash = hash; }, new URL(server.url).hash);
	await page.waitForSelector("#prediction .ls-panel");
	page.wrong.splice(0, page.wrong.length, ...page.wrong.filter((w) => !w.includes("401 (Unauthorized)")));
}));
