/* paste.mjs: what is chosen or pasted is asked, and nothing else: the page's answer to a text is that of `lockstep predict` of the
 * same text as a file or a line, in figures or in the words of its refusal, and so is that of the command that it shows. Of
 * the public configurations of LOCKSTEP_DATA a fixed sample, with LOCKSTEP_LONG all; lines are tests/data/launch_lines.txt. */
import {execFile} from "node:child_process";
import {existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync} from "node:fs";
import os from "node:os";
import path from "node:path";
import {check, close, open, program, same, serve, test} from "./page.mjs";

const LONG = Boolean(process.env.LOCKSTEP_LONG);
const CONFIGS = path.join(process.env.LOCKSTEP_DATA || "../shared/data", "configs");
const EVERY = LONG ? 1 : 40, REPRODUCED = LONG ? 4 : 8;
/* What a refusal says is missing, and what is chosen then, on the page and on the command line. */
const CHOICES = {model: "llama3.1-8b", gpu: "h100-sxm", gpus: "8"};
const FIGURES = ["fits", "step_time_s", "step_time_low_s", "step_time_high_s", "peak_bytes", "tokens_per_s_per_gpu", "mfu", "layout",
	"model", "cluster", "searched", "assumptions", "ignored", "memory"];

/* ---- the command line ---- */

async function withFolder(run) {
	const folder = mkdtempSync(path.join(os.tmpdir(), "lockstep-paste-"));
	try { await run(folder); } finally { rmSync(folder, {recursive: true}); }
}

/* What a command in a shell answers: an object, or its refusal without "lockstep: ". */
function shell(command, folder) {
	const env = {...process.env, PATH: path.dirname(program) + ":" + process.env.PATH};
	return new Promise((resolve) => execFile("bash", ["-c", command], {cwd: folder, env, maxBuffer: 1 << 28},
		(error, out, said) => resolve(out && error?.code !== 2 ? JSON.parse(out) : said.trim().replace(/^lockstep: /, ""))));
}

const flags = (chosen) => Object.entries(chosen).map(([name, value]) => ` --${name} ${value}`).join("");

/* The command that asks what the page was given. */
function commandOf(asked, text, chosen, folder) {
	if (text.startsWith("lockstep predict")) return text.replace("lockstep predict", "$& -o json" + flags(chosen));
	if (asked.launch) return `lockstep predict -o json${flags(chosen)} -- ${text}`;
	writeFileSync(path.join(folder, "job"), text);
	return `lockstep predict -o json${flags(chosen)} job`;
}

/* ---- the page ---- */

/* Follows what the page asks, in the page. `pasted` puts a text into the box and gives the answer to it; `chose` sets a control
 * and gives the next one: {body, said: the result or the text of the refusal, command}. */
function follow() {
	const log = [], real = window.fetch, draw = window.lockstepReport;
	let command = "", wake = () => {};
	window.fetch = async (url, options) => {
		const answer = await real(url, options);
		if (/launch$|form=picture/.test(url) && answer.status !== 204) {
			const said = await answer.clone().json();
			log.push({kind: /launch$/.test(url) ? "read" : "asked", body: JSON.parse(options.body), said: said.error ? said.error.text : said.result || said,
				wrong: Boolean(said.error)});
			setTimeout(() => wake());
		}
		return answer;
	};
	window.lockstepReport = (box, report, rest) => {
		draw(box, report, rest);
		if (box.id !== "prediction") return;
		command = report.reproduce;
		wake();
	};
	/* A text that cannot be read is the end of it; the state before is asked again then. */
	const next = async (from, reads) => {
		for (;;) {
			const read = reads && log.slice(from).find((one) => one.kind === "read");
			const asked = log.slice(read ? log.indexOf(read) + 1 : from).find((one) => one.kind === "asked");
			if (read?.wrong && asked) return read;
			if (asked && (!reads || read) && (asked.wrong || command)) return {...asked, command};
			await new Promise((go) => { wake = go; });
		}
	};
	window.pasted = (text) => {
		const from = log.length;
		command = "";
		document.getElementById("box").value = text;
		document.getElementById("box-go").click();
		return next(from, true);
	};
	window.chose = (name, text) => {
		const from = log.length, input = document.getElementById("f-" + name);
		command = "";
		if (input.tagName === "SELECT" && ![...input.options].some((o) => o.value === text)) input.append(new Option(text, text));
		input.value = text;
		input.dispatchEvent(new Event("input", {bubbles: true}));
		return next(from, false);
	};
}

async function withPage(browser, run) {
	const server = await serve(), page = await open(browser, {}, new URL(server.url).origin);
	try {
		await page.addInitScript(`addEventListener("DOMContentLoaded", ${follow})`);
		await page.goto(server.url);
		await page.waitForSelector("#prediction .ls-panel");
		await withFolder((folder) => run(page, folder));
		same(page.wrong.filter((w) => !w.includes("400 (Bad Request)")), [], "on the console");
	} finally {
		await close(page);
		await server.stop();
	}
}

/* ---- the same answer ---- */

/* A file that a text names lies neither beside the file of the command nor with the server, which says so in words of its own. */
const place = (text) => text.replace(/: (cannot open: No such file or directory; check the path|is not among the files that were sent; .*)$/, "");

function compare(what, page, command) {
	if (typeof page !== typeof command) return `${what}: ${JSON.stringify(page).slice(0, 300)}, command: ${JSON.stringify(command).slice(0, 300)}`;
	if (typeof page === "string") return place(page) === place(command) ? "" : `${what}: ${page}\n\tcommand: ${command}`;
	const differ = FIGURES.filter((name) => JSON.stringify(page[name]) !== JSON.stringify(command[name]));
	return differ.map((name) => `${what}: ${name}: ${JSON.stringify(page[name])}, command: ${JSON.stringify(command[name])}`).join("\n\t");
}

const missing = (said) => typeof said === "string" && (/^--(model|gpus?): (no |the number of GPUs was not given)/.exec(said) || [])[1];

/* A command with its answer as JSON: the last one, after those that write files. */
const asJson = (command) => command.replace(/(^|\n)(lockstep predict)(?![^]*\nlockstep predict)/, "$1$2 -o json");

/* Differences of one text, and whether it was answered. */
async function one(page, folder, name, text, reproduce) {
	const chosen = {};
	let got = await page.evaluate((text) => window.pasted(text), text);
	for (;;) {
		const said = await shell(commandOf(got.body, text, chosen, folder), folder);
		const differ = compare(name + flags(chosen), got.said, said);
		const lacks = missing(said);
		if (differ || !lacks || lacks in chosen) {
			if (differ || typeof said === "string" || !reproduce) return {differ, answered: typeof said !== "string"};
			check(!got.command.includes(" --no-fixes"), "nobody chose all of " + got.command);
			const again = await shell(asJson(got.command), mkdtempSync(path.join(folder, "again-")));
			return {differ: compare("the command of " + name, got.said, again), answered: true};
		}
		chosen[lacks] = CHOICES[lacks];
		got = await page.evaluate(([name, text]) => window.chose(name, text), [lacks, CHOICES[lacks]]);
	}
}

async function all(page, folder, texts) {
	const wrong = [];
	let answered = 0;
	for (const [i, [name, text]] of texts.entries()) {
		const found = await one(page, folder, name, text, i % REPRODUCED === 0);
		if (found.differ) wrong.push(found.differ);
		answered += found.answered;
	}
	if (wrong.length) throw new Error(`${wrong.length} of ${texts.length} differ:\n${wrong.slice(0, 8).join("\n")}`);
	return answered;
}

/* Choices one after the other, each over those before. */
const MOUSE = [{gpu: "rtx-4090", gpus: "4", model: "llama3.1-8b"}, {gpu: "h200", gpus: "16", model: "mixtral-8x7b"}, {gpus: "3"},
	{model: "qwen3-0.6b", gpus: "1"}, {tp: "2", gpus: "8"}, {dtype: "fp8"}, {tp: "", seq: "4096", mbs: "2"}, {recompute: "full", zero: "3"}];

test("choices by mouse are asked and nothing else, what was assumed is shown", (browser) => withPage(browser, async (page, folder) => {
	let chosen = {};
	for (const step of MOUSE) {
		let got;
		for (const [name, text] of Object.entries(step)) got = await page.evaluate(([name, text]) => window.chose(name, text), [name, text]);
		chosen = Object.fromEntries(Object.entries({...chosen, ...step}).filter(([, text]) => text));
		const said = await shell("lockstep predict -o json" + flags(chosen), folder);
		same(compare(flags(chosen), got.said, said), "");
		same(Object.keys(got.body).sort(), Object.keys(chosen).sort(), "what is asked");
		if (typeof said === "string") continue;
		same(compare("the command of" + flags(chosen), {...got.said, searched: 0, assumptions: 0},
			{...await shell(asJson(got.command), folder), searched: 0, assumptions: 0}), "");
		const open = ["gpus", "tp", "pp", "cp", "ep", "mbs", "gbs", "seq"].filter((name) => !chosen[name]);
		same(await page.evaluate((names) => names.map((name) => Number(document.getElementById("f-" + name).placeholder)), open),
			open.map((name) => said.layout[name]), "what open controls show");
	}
}));

test("launch lines that are pasted are answered as on the command line", (browser) => withPage(browser, async (page, folder) => {
	const lines = readFileSync("tests/data/launch_lines.txt", "utf8").trim().split("\n");
	check(lines.length >= 60, lines.length + " lines");
	/* Some as people write them, on several lines. */
	const texts = lines.map((text, i) => [text.slice(0, 60), i % 5 ? text : text.replace(/ (--\S)/g, " \\\n    $1")]);
	const answered = await all(page, folder, texts);
	check(answered >= lines.length / 2, `${answered} of ${lines.length} are answered`);
}));

function filesBelow(folder) {
	return readdirSync(folder).sort().flatMap((name) => {
		const one = path.join(folder, name);
		return statSync(one).isDirectory() ? filesBelow(one) : one.endsWith(".md") ? [] : [one];
	});
}

/* What the page takes as something else than the file of a job. */
const isJob = (text) => /\s/.test(text.trim()) && text.length < 1 << 20;

test("configurations and scripts that are pasted are answered as their files", (browser) => withPage(browser, async (page, folder) => {
	if (!existsSync(CONFIGS)) {
		console.log("skip %s: it is not here", CONFIGS);
		return;
	}
	const files = filesBelow(CONFIGS).filter((_, i) => i % EVERY === 7 % EVERY);
	const texts = files.map((name) => [path.relative(CONFIGS, name), readFileSync(name, "utf8")]).filter(([, text]) => isJob(text));
	const answered = await all(page, folder, texts);
	check(answered >= texts.length / 4, `${answered} of ${texts.length} are answered`);
}));
