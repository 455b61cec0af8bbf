/* page.mjs: what the browser tests share: a server, a browser, checks, and what a page says on its console. */
import {spawn} from "node:child_process";
import {mkdirSync} from "node:fs";
import {createRequire} from "node:module";
import path from "node:path";
import {fileURLToPath} from "node:url";

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
/* Installed by run.sh into build/, beside which nothing of it stands in the repository. */
const {chromium} = createRequire(path.join(root, "build/browser/"))("playwright-core");

export const program = path.resolve(process.env.LOCKSTEP || path.join(root, "build/release/lockstep"));
const pictures = path.join(root, "build/browser/pictures");

/* A picture of the page for people, where LOCKSTEP_PICTURES asks for them: they take a fifth of the time. */
export async function picture(page, name, more) {
	if (!process.env.LOCKSTEP_PICTURES) return;
	mkdirSync(pictures, {recursive: true});
	await page.waitForTimeout(100);
	await page.screenshot({path: path.join(pictures, name + ".png"), ...more});
}

/* Milliseconds that nothing takes, however busy the machine is. */
const LONG = 400000;

/* `lockstep serve --port 0`: {url, stop()}. */
export function serve(...options) {
	const child = spawn(program, ["serve", "--port", "0", "--seconds", "600", ...options], {cwd: root, stdio: ["ignore", "pipe", "inherit"]});
	return new Promise((resolve, reject) => {
		let said = "";
		child.on("exit", (code) => reject(new Error("lockstep serve ended: " + code)));
		child.stdout.on("data", (bytes) => {
			said += bytes;
			const found = /open (http:\S+)\n/.exec(said);
			if (found) resolve({url: found[1], pid: child.pid, stop: () => new Promise((done) => {
				child.removeAllListeners("exit");
				child.on("exit", done);
				child.kill("SIGTERM");
			})});
		});
	});
}

export function launch() {
	/* As root, as in containers, Chromium runs without its sandbox alone; it opens pages of ours. */
	return chromium.launch({executablePath: process.env.CHROMIUM || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"], timeout: LONG});
}

/* A page with a list of what went wrong on it: errors on the console, exceptions, requests to anywhere but `allowed`. */
export async function open(browser, options, allowed) {
	const context = await browser.newContext({viewport: {width: 1280, height: 900}, ...options});
	const page = await context.newPage();
	page.wrong = [];
	page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") page.wrong.push(m.type() + ": " + m.text()); });
	page.on("pageerror", (e) => page.wrong.push("exception: " + e.message));
	page.on("request", (r) => { if (!r.url().startsWith(allowed) && !/^(data|blob):/.test(r.url())) page.wrong.push("request: " + r.url()); });
	page.on("dialog", (d) => { page.wrong.push("dialog: " + d.message()); d.dismiss(); });
	page.setDefaultTimeout(LONG);
	return page;
}

export const close = (page) => page.context().close();

/* Tests in order; each has a name and throws where something does not hold. */
export const tests = [];
export const test = (name, run) => tests.push({name, run});

export function check(holds, what) {
	if (!holds) throw new Error(what);
}
export function same(found, wanted, what) {
	if (JSON.stringify(found) !== JSON.stringify(wanted))
		throw new Error((what || "differs") + ": " + JSON.stringify(found) + ", wanted " + JSON.stringify(wanted));
}

/* The next picture of a prediction, after `act`. */
export async function shown(page, act) {
	await page.evaluate(() => {
		window.wasShown = false;
		document.addEventListener("lockstep-shown", () => { window.wasShown = true; }, {once: true});
	});
	await act();
	await page.waitForFunction(() => window.wasShown);
}

/* The clipboard is one for all pages: who copies and pastes has it alone. */
let clipboardFree = Promise.resolve();
export function withClipboard(act) {
	const result = clipboardFree.then(act);
	clipboardFree = result.catch(() => {});
	return result;
}
/* A job whose layout is stated, for the end of the address of a server. */
export const LAID_OUT = "&model=llama3.1-70b&gpu=h100-sxm&gpus=64&tp=4&pp=8&gbs=128&seq=8192";

/* The page with its first picture. */
export async function start(page, url) {
	await page.goto(url);
	await page.waitForSelector("#prediction .ls-panel");
	await whole(page);
}
/* Until all panels of a report are drawn, and those that come with a second answer too. */
export const whole = (page, box = ".ls-report") => page.waitForFunction((box) => {
	const report = document.querySelector(box);
	return report && !report.hasAttribute("aria-busy") && !report.querySelector(".ls-room, .ls-stale, .ls-panel-pending");
}, box);
/* Until the verdict is this one: between two events of one change a slow machine may show a picture, and then another. */
export const says = (page, verdict) => page.waitForFunction((verdict) =>
	document.querySelector("#prediction .ls-verdict h2").textContent === verdict, verdict);
/* Whether nothing stands out of the window to the right. */
export const narrow = (page) => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
