/* form.mjs: the form of the page: nothing is cut or sticks out at any width, in both themes; the first screen has the
 * answer; axe-core finds nothing serious; answers stand side by side. */
import {readFileSync} from "node:fs";
import path from "node:path";
import {createRequire} from "node:module";
import {fileURLToPath} from "node:url";
import {LAID_OUT, check, close, narrow, open, same, serve, shown, start, test, whole} from "./page.mjs";
import {ask, TABLES} from "./questions.mjs";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const axe = readFileSync(createRequire(path.join(root, "build/browser/")).resolve("axe-core/axe.min.js"), "utf8");
const origin = (server) => new URL(server.url).origin;

async function withServer(run) {
	const server = await serve();
	try { await run(server); } finally { await server.stop(); }
}

/* Labels, choices and buttons whose text is wider or higher than its box. */
const cut = (page) => page.evaluate(() => {
	const seen = (e) => e.getClientRects().length > 0, found = [];
	for (const e of document.querySelectorAll(".sv-field label, .sv-field > span:first-child, legend, summary, .sv-page button, .sv-glance dt, .sv-glance dd"))
		if (seen(e) && (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" || e.scrollHeight > e.clientHeight + 2
			&& getComputedStyle(e).overflow === "hidden")) found.push(e.textContent.trim() + " " + e.scrollWidth + ">" + e.clientWidth);
	const measure = document.createElement("canvas").getContext("2d");
	for (const e of document.querySelectorAll(".sv-field select")) {
		if (!seen(e) || e.selectedIndex < 0) continue;
		const style = getComputedStyle(e), text = e.options[e.selectedIndex].text;
		measure.font = style.font;
		/* the arrow takes about as much as a letter is high */
		const room = e.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - parseFloat(style.fontSize);
		if (measure.measureText(text).width > room + 1) found.push("select " + text + " " + Math.round(measure.measureText(text).width) + ">" + Math.round(room));
	}
	return found;
});

const views = (page) => page.$$eval("#tabs [role=tab]", (all) => all.map((tab) => tab.id));

/* Some views with answers, all options in sight. */
async function answers(page) {
	await ask(page, "shard", {tables: TABLES});
	await ask(page, "diff", {}, ["tests/data/trace_before.json", "tests/data/trace_after.json"]);
	await page.click("#tab-timeline");
	await page.waitForFunction(() => document.getElementById("timeline-canvas").dataset.drawn);
	await page.evaluate(() => { for (const d of document.querySelectorAll("#more, .sv-task details")) d.open = true; });
}

test("nothing is cut, from 320 to 2560 pixels, light and dark", (browser) => withServer(async (server) => {
	for (const colorScheme of ["light", "dark"]) {
		const page = await open(browser, {colorScheme}, origin(server));
		await start(page, server.url + LAID_OUT);
		await answers(page);
		for (const width of [320, 400, 768, 1024, 1440, 2560]) {
			await page.setViewportSize({width, height: 900});
			for (const view of await views(page)) {
				await page.evaluate((view) => document.getElementById(view).click(), view);
				/* Charts are drawn anew in the next frames. */
				await page.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth, null, {timeout: 20000})
					.catch(() => { throw new Error(view + ": wider than " + width); });
				same(await cut(page), [], `${view} at ${width}, ${colorScheme}`);
			}
		}
		same(page.wrong, [], "on the console");
		await close(page);
	}
}));

test("the first screen has verdict, step, memory and cost at any width", (browser) => withServer(async (server) => {
	for (const width of [320, 768, 1440]) {
		const page = await open(browser, {viewport: {width, height: 700}}, origin(server));
		await start(page, server.url);
		const glance = await page.evaluate(() => {
			const box = document.getElementById("glance").getBoundingClientRect();
			return {text: document.getElementById("glance").innerText, top: box.top, bottom: box.bottom};
		});
		check(glance.top >= 0 && glance.bottom < 300, "in sight at " + width);
		for (const word of ["Fits", "memory", "cost", "$", " s"]) check(glance.text.includes(word), word + " in " + glance.text);
		/* A way past the controls, by keyboard everywhere, in sight where they stand above the answer. */
		same(await page.evaluate(() => document.getElementById("to-answer").getBoundingClientRect().bottom > 0), width < 860, "the button at " + width);
		await page.focus("#to-answer");
		check(await page.evaluate(() => document.getElementById("to-answer").getBoundingClientRect().bottom > 0), "seen with the focus");
		await page.keyboard.press("Enter");
		const tabs = await page.evaluate(() => ({focus: document.activeElement.id, top: document.getElementById("tabs").getBoundingClientRect().top,
			below: document.getElementById("glance").parentNode.getBoundingClientRect().bottom}));
		same(tabs.focus, "tab-predict");
		check(tabs.top >= tabs.below - 1 && tabs.top < 400, "the tabs are in sight at " + width + ": " + JSON.stringify(tabs));
		await shown(page, () => page.fill("#f-tp", "1"));
		await page.waitForFunction(() => document.getElementById("glance").innerText.includes("Does not fit"));
		await close(page);
	}
}));

test("controls that are left open show what the answer takes, and read 8k", (browser) => withServer(async (server) => {
	const page = await open(browser, {viewport: {width: 2560, height: 1440}}, origin(server));
	await start(page, server.url);
	const command = await page.textContent("#prediction .ls-command");
	for (const name of ["tp", "pp", "vp", "cp", "mbs", "gbs", "seq"])
		same(command.includes(` --${name} ${await page.getAttribute("#f-" + name, "placeholder")} `), true, name);
	same(await page.$eval("#f-dtype", (e) => e.options[e.selectedIndex].text), "default: bf16");
	await shown(page, () => page.fill("#f-seq", "4k"));
	await page.waitForFunction(() => document.querySelector("#prediction .ls-command").textContent.includes("--seq 4096"));
	const side = await page.$$eval("#prediction :is(.ls-panel-waterfall, .ls-panel-memory)", (two) => two.map((e) => e.getBoundingClientRect().top));
	same(side.length, 2), same(side[0], side[1], "wide screens show panels side by side");
	same(page.wrong, [], "on the console");
	await close(page);
}));

test("axe-core finds nothing serious", (browser) => withServer(async (server) => {
	for (const colorScheme of ["light", "dark"]) {
		const page = await open(browser, {viewport: {width: 1280, height: 900}, colorScheme, bypassCSP: true}, origin(server));
		await start(page, server.url + LAID_OUT);
		await answers(page);
		await page.click("#keep");
		await page.evaluate(axe);
		/* The second theme differs in colours alone, a view in its panel. */
		const rules = colorScheme === "light" ? {} : {runOnly: ["color-contrast"]};
		for (const view of [null, ...await views(page)]) {
			if (view) await page.click("#" + view);
			const found = await page.evaluate(([place, rules]) => window.axe.run(place, {resultTypes: ["violations"], ...rules}),
				[view ? "#" + view.replace("tab-", "view-") : {exclude: "#views"}, rules]);
			same(found.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
				.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target.join(" ")).join(", ")), [], view + ", " + colorScheme);
		}
		await close(page);
	}
}));

test("answers that are kept stand side by side, travel in the link, and can be shown again", (browser) => withServer(async (server) => {
	const page = await open(browser, {}, origin(server));
	await start(page, server.url);
	await page.click("#keep");
	/* Thousands of tokens/s are written 1,054. */
	await shown(page, () => page.selectOption("#f-dtype", "fp8"));
	await page.waitForFunction(() => /\d,\d{3}/.test(document.querySelector("#prediction .ls-figures").textContent));
	check((await page.textContent("#glance")).includes("per million tokens"), "cost of tokens at a glance");
	await shown(page, () => page.fill("#f-tp", "8"));
	await page.focus("#keep");
	await page.keyboard.press("Enter");
	await page.click("#tab-compare");
	same(await page.textContent("#tab-compare"), "Compare (2)");
	const rows = (on) => on.$$eval("#comparison tbody tr", (all) => all.map((tr) => [...tr.cells].map((td) => td.textContent)));
	const two = await rows(page);
	same(two.length, 2);
	same(two[0][0], "llama3.1-70b, h100-sxm, 64 GPUs");
	same(two[1][0], "tp 8, dtype fp8");
	check(/^[+-]?\d+\.\d %$/.test(two[1][3]), "the change: " + two[1][3]);
	check(two.every((row) => row[7].startsWith("$") && row[8].startsWith("$")), "cost");
	const other = await page.context().newPage();
	await other.goto(page.url());
	await other.waitForFunction(() => document.querySelectorAll("#comparison tbody tr").length === 2);
	same(await rows(other), two, "the link");
	await other.close();
	await page.click("#compare-choices button >> nth=0");
	await page.waitForFunction(() => document.getElementById("f-tp").value === "");
	check(await page.isVisible("#view-predict"), "the prediction");
	await page.click("#tab-compare");
	await page.click("#compare-choices button >> nth=1");
	same((await rows(page)).length, 1);
	same(page.wrong, [], "on the console");
	await close(page);
}));

test("Back takes a change back", (browser) => withServer(async (server) => {
	const page = await open(browser, {}, origin(server));
	await start(page, server.url);
	await page.waitForFunction(() => location.hash.includes("model="));
	await shown(page, () => page.fill("#f-tp", "8"));
	await whole(page);
	await page.waitForFunction(() => location.hash.includes("tp=8"));
	await page.goBack();
	await page.waitForFunction(() => document.getElementById("f-tp").value === "");
	await page.goForward();
	await page.waitForFunction(() => document.getElementById("f-tp").value === "8");
	await whole(page);
	/* Between the browser's step and its event the page writes no address of its own: it would end the way forward. */
	const kept = await page.evaluate(() => {
		const other = location.hash.replace("tp=8", "tp=2");
		history.pushState(null, "", other);
		dispatchEvent(new Event("pagehide"));
		const same = location.hash === other;
		dispatchEvent(new Event("hashchange"));
		return same;
	});
	check(kept, "the address that the browser went to stays");
	await page.waitForFunction(() => document.getElementById("f-tp").value === "2");
	same(page.wrong, [], "on the console");
	await close(page);
}));
