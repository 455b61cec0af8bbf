/* questions.mjs: the views of the page that ask with a button, the timeline, the box, links in a fresh profile. */
import {readFileSync} from "node:fs";
import {check, close, LAID_OUT, open, same, serve, start, test, whole} from "./page.mjs";

const origin = (server) => new URL(server.url).origin;

async function withPage(browser, run) {
	const server = await serve(), page = await open(browser, {}, origin(server));
	try {
		await run(page, server);
		same(page.wrong, [], "on the console");
	} finally {
		await close(page);
		await server.stop();
	}
}

/* The answer of a view, after its button. */
export async function ask(page, name, fields = {}, files = []) {
	await page.click("#tab-" + name);
	for (const [field, text] of Object.entries(fields)) await page.fill(`#${name}-${field}`, text);
	for (const [i, file] of files.entries()) await page.setInputFiles(`#${name}-files${i || ""}`, file);
	await page.click(`#${name}-go`);
	await page.waitForFunction((name) => document.querySelector(`#${name}-answer .ls-panel`)
		|| !document.getElementById("message").hidden, name);
	check(await page.isHidden("#message"), name + ": " + await page.textContent("#message"));
	await whole(page, `#${name}-answer`);
}

async function saved(page, panel, form) {
	if (!await panel.locator(".ls-saves").evaluate((e) => e.open)) await panel.locator(".ls-saves summary").click();
	const [file] = await Promise.all([page.waitForEvent("download"),
		panel.locator(".ls-saves").getByRole("button", {name: form, exact: true}).click()]);
	return {name: file.suggestedFilename(), bytes: readFileSync(await file.path())};
}

export const TABLES = "name,rows,dim,pooling\na,100000,64,2\n<img src=x>,5000,32,1\n";

test("a sweep is a table and a plot, is filtered and saved, and its link asks again in a fresh profile",
	(browser) => withPage(browser, async (page, server) => {
	await start(page, server.url);
	await page.fill("#f-tp", "2"), await page.fill("#f-pp", "");
	await page.selectOption("#f-model", "llama3.1-8b");
	await ask(page, "sweep", {gpus: "8, 16, 32", tp: "1,2", gbs: "64"});
	const table = page.locator("#sweep-answer .ls-panel-table:has(h3:text-is('All combinations'))");
	same(await table.locator("tbody tr").count(), 6, "rows");
	await table.locator(".ls-filter").fill("16");
	const left = await table.locator("tbody tr").count();
	check(left > 0 && left < 6, "filtered rows: " + left);
	same(await table.locator(".ls-filtered").textContent(), left + " of 6");
	const csv = await saved(page, table, "CSV"), json = await saved(page, table, "JSON");
	same(csv.name, "all-combinations.csv");
	same(csv.bytes.toString().trim().split("\n").length, left + 1, "lines of the CSV");
	same(JSON.parse(json.bytes).length, left, "rows of the JSON");
	const plot = page.locator("#sweep-answer .ls-panel-scatter").first();
	const svg = await saved(page, plot, "SVG"), png = await saved(page, plot, "PNG");
	check(svg.bytes.toString().startsWith("<svg") && !svg.bytes.toString().includes("class="), "the SVG stands alone");
	check(/fill="rgb/.test(svg.bytes.toString()), "colours of the SVG");
	same([...png.bytes.subarray(1, 4)].map((b) => String.fromCharCode(b)).join(""), "PNG");
	const command = await page.textContent("#sweep-answer .ls-command >> nth=-1");
	const fresh = await open(browser, {}, origin(server));
	await fresh.goto(page.url());
	await fresh.waitForSelector("#token-form:not([hidden])");
	await fresh.fill("#token", server.url);
	await fresh.keyboard.press("Enter");
	await fresh.waitForSelector("#sweep-answer .ls-panel");
	await whole(fresh, "#sweep-answer");
	same(await fresh.textContent("#sweep-answer .ls-command >> nth=-1"), command, "the link");
	same(fresh.wrong.filter((w) => !w.includes("401")), []);
	await close(fresh);
	await page.click("#tab-rent");
	await page.goBack();
	await page.waitForSelector("#view-sweep:not([hidden])");
	same(await page.inputValue("#sweep-tp"), "1,2", "Back");
}));

test("rent, what-if, shard, diff and stalls answer in views of their own", (browser) => withPage(browser, async (page, server) => {
	await start(page, server.url);
	await page.selectOption("#f-model", "llama3.1-8b");
	for (const name of ["tp", "pp"]) await page.fill("#f-" + name, "");
	await page.fill("#f-gpus", "8");
	await ask(page, "whatif", {set: "nic=2x\nlink=2x"});
	const command = await page.textContent("#whatif-answer .ls-command");
	check(command.includes("--set nic=2x --set link=2x"), "changes of the predicted step, one a line: " + command);
	/* What is wrong with a control of the view is said there, and the button keeps the focus. */
	await page.fill("#whatif-set", "nonsense=2x");
	await page.focus("#whatif-go");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => !document.getElementById("whatif-set-why").hidden);
	check((await page.textContent("#whatif-set-why")).includes("unknown key"), "what is wrong");
	same(await page.evaluate(() => document.activeElement.id), "whatif-go", "focus");
	await page.waitForFunction(() => document.getElementById("whatif-go").getAttribute("aria-disabled") === "false");
	page.wrong.splice(0, page.wrong.length, ...page.wrong.filter((w) => !w.includes("400 (Bad Request)")));
	await ask(page, "shard", {tables: TABLES});
	check((await page.textContent("#shard-answer")).includes("Fits"), "the placement");
	await ask(page, "diff", {}, ["tests/data/trace_before.json", "tests/data/trace_after.json"]);
	check((await page.textContent("#diff-answer .ls-verdict")).includes("beyond noise"), "the comparison");
	const text = "# darshan log version: 3.41\nPOSIX\t0\t7\tPOSIX_READS\t20\t/data/a\t/\text4\n"
		+ "POSIX\t0\t7\tPOSIX_F_READ_TIME\t1.5\t/data/a\t/\text4\n";
	await ask(page, "stalls", {}, [{name: "darshan.txt", mimeType: "text/plain", buffer: Buffer.from(text)}]);
	await ask(page, "rent", {tokens: "1G", provider: "lambda", "most-gpus": "8"});
	check((await page.textContent("#rent-answer")).includes("$"), "dollars");
	same(await page.$$eval("img", (all) => all.length), 0, "images");
}));

/* Names that would run in a page which did not show them as text. */
const HOSTILE = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">${x}{{x}}";

/* A trace in which all texts but those of its form end with such a name: operations, threads, devices, hosts. */
function hostileTrace(path) {
	const form = new Set(["ph", "cat", "schemaVersion", "displayTimeUnit", "External id", "correlation"]);
	const spoil = (value, key) => Array.isArray(value) ? value.map((item) => spoil(item))
		: value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, spoil(item, name)]))
		: typeof value === "string" && !form.has(key) && !value.startsWith("ProfilerStep") && !value.endsWith("_name") ? value + HOSTILE : value;
	const trace = JSON.stringify(spoil(JSON.parse(readFileSync(path, "utf8"))));
	return {name: HOSTILE.replaceAll("/", "") + ".json", mimeType: "application/json", buffer: Buffer.from(trace)};
}

test("names in files are shown as text, and never run", (browser) => withPage(browser, async (page, server) => {
	await start(page, server.url);
	const title = await page.title();
	const text = async (name) => {
		check((await page.textContent(`#${name}-answer`)).includes("<img src=x"), name + " shows the names");
		same(await page.$$eval("img", (all) => all.length), 0, name + ": images");
		same(await page.title(), title, name + ": the title");
	};
	await ask(page, "explain", {}, [hostileTrace("tests/data/trace_small.json")]);
	await text("explain");
	await ask(page, "diff", {}, [hostileTrace("tests/data/trace_before.json"), hostileTrace("tests/data/trace_after.json")]);
	await text("diff");
	await ask(page, "shard", {tables: `name,rows,dim,pooling\n"${HOSTILE.replaceAll('"', '""')}",100000,64,2\n`});
	await text("shard");
}));

test("the timeline zooms, pans, searches by keyboard, and goes to Perfetto when that is asked",
	(browser) => withPage(browser, async (page, server) => {
	await page.context().route("https://ui.perfetto.dev/**", (route) => route.fulfill({contentType: "text/html", body: `<script>
		addEventListener("message", (e) => {
			if (e.data === "PING") e.source.postMessage("PONG", e.origin);
			else document.title = JSON.parse(new TextDecoder().decode(e.data.perfetto.buffer)).traceEvents.length > 100 ? "whole" : "broken";
		});</script>`}));
	await start(page, server.url + LAID_OUT);
	await page.click("#tab-timeline");
	await page.waitForFunction(() => Number(document.getElementById("timeline-canvas").dataset.drawn) > 100);
	const span = () => page.evaluate(() => document.getElementById("timeline-canvas").dataset.drawn);
	const all = await span();
	await page.focus("#timeline-canvas");
	for (const key of ["+", "+", "+", "+", "ArrowRight"]) await page.keyboard.press(key);
	check(await span() !== all, "zoomed");
	await page.keyboard.press("Home");
	same(await span(), all, "all of it");
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("n");
	const first = await page.textContent("#timeline-said");
	await page.keyboard.press("n");
	check(await page.textContent("#timeline-said") !== first && / from /.test(first), "the next span: " + first);
	await page.fill("#timeline-search", "gather parameters");
	await page.keyboard.press("Enter");
	check((await page.textContent("#timeline-said")).startsWith("gather parameters"), "what was searched");
	check(/^1 of \d+$/.test(await page.textContent(".sv-count")), "how many");
	const [other] = await Promise.all([page.context().waitForEvent("page"), page.click("#timeline-perfetto")]);
	await other.waitForFunction(() => document.title);
	same(await other.title(), "whole");
	await other.close();
	/* While the window is still empty a PING has nobody to hear it. */
	page.wrong.splice(0, page.wrong.length, ...page.wrong.filter((w) => !w.includes("postMessage")));
}));

test("the box takes names, launch lines, YAML and JSON, and says what it does not understand",
	(browser) => withPage(browser, async (page, server) => {
	const box = async (text, said) => {
		await page.fill("#box", text);
		await page.focus("#box");
		await page.keyboard.press("Enter");
		await page.waitForFunction((said) => document.getElementById("box-said").textContent.includes(said), said);
	};
	await start(page, server.url);
	await box("Llama3.1-8B", "Read as a model.");
	await page.waitForFunction(() => document.getElementById("f-model").value === "llama3.1-8b");
	await box("H200", "Read as a GPU.");
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--gpu h200 "));
	/* What is wrong is said at the box, and the controls stay as they were. */
	const before = await page.evaluate(() => [...document.querySelectorAll("#controls :is(input, select, textarea)")].slice(1).map((e) => e.value));
	for (const [text, said] of [["no-such-model", "Read as the name of a model: no model is named"], ["train it", "Read as a launch line: launch line: no training"]]) {
		await box(text, said);
		same(await page.evaluate(() => [...document.querySelectorAll("#controls :is(input, select, textarea)")].slice(1).map((e) => e.value)), before, text);
	}
	await page.waitForFunction(() => !document.querySelector("#glance.sv-stale"));
	check(await page.isHidden("#message"), "said once");
	await page.fill("#f-seq", "4096");
	check((await page.textContent("#box-said")).startsWith("Files can be dropped"), "what the box said is about an older change");
	await box(readFileSync("tests/data/hf/gpt2.json", "utf8"), "config.json of a network");
	await page.waitForFunction(() => document.getElementById("f-model").value.includes("gpt2"));
	await box("torchrun --nproc_per_node 8 pretrain_gpt.py --tensor-model-parallel-size 2 --num-layers 4 --hidden-size 512 "
		+ "--num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --vocab-size 32000 --micro-batch-size 1 "
		+ "--global-batch-size 8 --bf16 --exit-interval 5", "Read as a launch line: --gpu: no GPU was given");
	await page.selectOption("#f-gpu", "h200");
	await page.waitForFunction(() => document.getElementById("box-said").textContent.includes("Not understood, or without effect: exit-interval"));
	same(await page.inputValue("#f-tp"), "2");
	await box("model_name_or_path: gpt2\nmystery: 3\n", "Read as a configuration or a launch script");
	await box("[1, 2]", "Not understood");
	await page.selectOption("#f-gpu", "h200"), await page.fill("#f-gpus", "8");
	await box("name,rows,dim,pooling\na,1000,64,2\n", "Read as embedding tables.");
	await page.waitForSelector("#shard-answer .ls-panel");
	page.wrong.splice(0, page.wrong.length, ...page.wrong.filter((w) => !w.includes("400 (Bad Request)")));
}));
