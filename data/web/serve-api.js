/* serve-api.js: the interface of the server, with the token that came in the address. */

const KEY = "lockstep.token";

/* The token moves from the address to this browser's store for this server, so that links do not carry it. */
function takeToken() {
	const found = /(?:^#|&)token=([0-9a-f]{32})(?:&|$)/.exec(location.hash);
	if (found) {
		try { localStorage.setItem(KEY, found[1]); } catch { /* then it lasts as long as the page */ }
		const rest = location.hash.slice(1).split("&").filter((part) => !part.startsWith("token=")).join("&");
		history.replaceState(null, "", location.pathname + (rest ? "#" + rest : ""));
		return found[1];
	}
	try { return localStorage.getItem(KEY) || ""; } catch { return ""; }
}

let token = takeToken();

/* The token of a text that holds one: the address that the server printed, or the token itself. False: there is none. */
export function takeTokenOf(text) {
	const found = /(?:^|[#&]token=)([0-9a-f]{32})(?:&|\s*$)/.exec(text.trim());
	if (!found) return false;
	token = found[1];
	try { localStorage.setItem(KEY, token); } catch { /* then it lasts as long as the page */ }
	return true;
}

/* A link of a new run may be opened in the same page. */
export function renewToken() {
	token = takeToken();
}

export const authorization = () => "Bearer " + token;

export class Refusal extends Error {
	constructor(error, status) {
		super(error.text);
		this.where = error.where;
		this.status = status;
	}
}

export async function read(answer) {
	if (answer.status === 204) return null;
	const document = await answer.json().catch(() => ({error: {text: "the server did not answer in JSON", where: ""}}));
	if (!answer.ok) throw new Refusal(document.error, answer.status);
	return document;
}

async function send(method, path, body) {
	const headers = {Authorization: authorization()};
	if (body !== undefined) headers["Content-Type"] = "application/json";
	let answer;
	try {
		answer = await fetch("api/v1/" + path, {method, headers,
			body: body === undefined ? undefined : JSON.stringify(body)});
	} catch {
		throw new Refusal({text: "lockstep serve does not answer; is it running?", where: "server"}, 0);
	}
	return read(answer);
}

export const get = (path) => send("GET", path);
export const post = (path, body) => send("POST", path, body);
export const remove = (path) => send("DELETE", path);
