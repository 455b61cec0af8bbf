/* report.js: a document in an element. lockstepReport(element, document) may be called again with another document; panels
 * that are folded stay folded. */
(function (ls) {
	"use strict";

	function panelOf(panel, report) {
		const frame = {tools: ls.el("div", "ls-tools"), report: report};
		const body = ls.el("div", "ls-body"), section = ls.el("section", "ls-panel ls-panel-" + ls.key(panel.kind) + (panel.wide ? " ls-wide" : ""));
		if (panel.kind !== "verdict") section.append(ls.el("header", "", ls.el("h3", "", panel.title), frame.tools));
		if (panel.note) section.append(ls.el("p", "ls-note", panel.note));
		section.append(body);
		const make = ls.panels[panel.kind];
		if (make) make(panel, body, frame);
		else body.append(ls.el("p", "ls-note", "this page does not know panels of the kind " + panel.kind));
		return section;
	}

	function texts(title, lines, name) {
		if (!lines || !lines.length) return null;
		const list = ls.el("ul", "");
		for (const line of lines) list.append(ls.el("li", "", line));
		return ls.el("section", "ls-panel ls-texts " + name, ls.el("header", "", ls.el("h3", "", title)), list);
	}

	function head(report) {
		return ls.el("header", "ls-head", ls.el("p", "ls-brand", "lockstep " + report.verb), ls.el("h1", "", report.title));
	}

	function end(report) {
		const json = ls.button("Copy", "copy all data as JSON", () => ls.copy(JSON.stringify(report, null, 2), json));
		const parts = [];
		if (report.reproduce) {
			const frame = {tools: ls.el("div", "ls-tools")}, body = ls.el("div", "ls-body");
			ls.panels.command({command: report.reproduce}, body, frame);
			parts.push(ls.el("section", "ls-panel ls-wide", ls.el("header", "", ls.el("h3", "", "To reproduce"), frame.tools), body));
		}
		parts.push(ls.el("p", "ls-note ls-wide ls-end", "lockstep " + (report.lockstep || "") + (report.data ? ", data of " + report.data : "") + ". All data of this page as JSON: ", json));
		return parts;
	}

	window.lockstepReport = function (element, report) {
		const grid = ls.el("main", "ls-grid-panels");
		ls.untip();
		grid.append(texts("Warnings", report.warnings, "ls-warnings ls-wide") || "");
		for (const panel of report.panels) grid.append(panelOf(panel, report));
		grid.append(texts("Assumptions", report.assumptions, "ls-wide") || "", ...end(report));
		element.classList.add("ls-report");
		element.replaceChildren(head(report), grid);
	};

	/* A page that holds its document shows it at once. */
	const held = document.getElementById("document"), place = document.getElementById("lockstep");
	if (held && place) window.lockstepReport(place, JSON.parse(held.textContent));
})(window.lockstep = window.lockstep || {});
