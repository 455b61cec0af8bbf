/* report.js: a document in an element. lockstepReport(element, document) may be called again with another document:
 * panels in view are drawn at once, the others when there is time, when they are scrolled to, or before the page is
 * printed; until then they stay as they were. A panel "pending" stands for one of its title that will come: an older
 * one stays, paled. With `rest` it has come: the document is the one that is shown, whole now, and panels that are
 * there already are its own. */
(function (ls) {
	"use strict";

	/* Drawn at once where nobody knows yet what is in view. */
	const FIRST = 4;

	/* ---- sections ---- */

	function panelOf(panel, report) {
		const frame = {tools: ls.el("div", "ls-tools"), report: report}, body = ls.el("div", "ls-body");
		const section = ls.el("section", "ls-panel ls-panel-" + ls.key(panel.kind) + (panel.wide ? " ls-wide" : ""));
		if (panel.kind !== "verdict") section.append(ls.el("header", "", ls.el("h3", "", panel.title), frame.tools));
		const note = [panel.note, panel.hint].filter(Boolean).join("; ");
		if (note) section.append(ls.el("p", "ls-note", note));
		section.append(body);
		const make = ls.panels[panel.kind];
		if (make) drawIn(make, panel, body, frame);
		else body.append(ls.el("p", "ls-note", "this page does not know panels of the kind " + panel.kind));
		return section;
	}

	/* A document that is not ours may lack what its panels need: the others are drawn all the same. */
	function drawIn(make, panel, body, frame) {
		try {
			make(panel, body, frame);
		} catch (error) {
			body.replaceChildren(ls.el("p", "ls-note", "this panel cannot be drawn: " + error.message));
		}
	}

	/* What stands for a panel that nobody has drawn yet. */
	function roomOf(panel) {
		const section = ls.el("section", "ls-panel ls-room" + (panel.wide ? " ls-wide" : ""));
		section.append(ls.el("header", "", ls.el("h3", "", panel.title)));
		return section;
	}

	function texts(title, lines, name) {
		const list = ls.el("ul", "");
		for (const line of lines) list.append(ls.el("li", "", line));
		return ls.el("section", "ls-panel ls-texts " + name, ls.el("header", "", ls.el("h3", "", title)), list);
	}

	function head(report) {
		return ls.el("header", "ls-head", ls.el("p", "ls-brand", "lockstep " + report.verb),
			ls.el("h1", "", report.title));
	}

	function command(report) {
		const frame = {tools: ls.el("div", "ls-tools")}, body = ls.el("div", "ls-body");
		const title = ls.el("header", "", ls.el("h3", "", report.reproduces ? "To predict " + report.reproduces : "To reproduce"), frame.tools);
		ls.panels.command({command: report.reproduce}, body, frame);
		return ls.el("section", "ls-panel ls-wide", title, body);
	}

	/* The files behind the answer by their content; of large ones the hash is of their size and both ends. */
	function inputs(report) {
		const frame = {tools: ls.el("div", "ls-tools")}, whole = report.inputs.every((i) => !i.sha256_ends);
		const section = ls.el("section", "ls-panel ls-wide ls-inputs", ls.el("header", "", ls.el("h3", "", "Files that were read"),
			frame.tools));
		section.append(ls.el("p", "ls-note", whole ? "as they were when this report was written"
			: "as they were when this report was written; ends: the hash of size, first and last MiB"));
		const body = ls.el("div", "ls-body");
		ls.panels.table({title: "files", columns: [{key: "path", title: "file"}, {key: "bytes", title: "size", right: true},
			{key: "sha256", title: "SHA-256"}, {key: "of", title: whole ? "" : "of"}],
			rows: report.inputs.map((i) => [i.path, i.bytes === null ? null : [i.bytes, ls.bytes(i.bytes)],
				i.sha256 || i.sha256_ends || "", i.sha256_ends ? "ends" : null]), left_out: report.inputs_left_out}, body, frame);
		section.append(body);
		return section;
	}

	function foot(report) {
		const json = ls.button("Copy", "copy all data as JSON", () => ls.copy(JSON.stringify(report, null, 2), json));
		const save = ls.button("Save", "save all data as JSON", () => ls.save(ls.fileName(report.title, "json"),
			"application/json", JSON.stringify(report, null, 2) + "\n"));
		const version = "lockstep " + (report.lockstep || "") + (report.data ? ", data of " + report.data : "");
		return ls.el("p", "ls-note ls-wide ls-end", version + ". All data of this page as JSON: ", json, " ", save);
	}

	/* ---- what a document asks for ---- */

	/* Of an odd number of panels that take half the width, the last takes all of it: beside the others no room stays. */
	function loneOf(panels) {
		const narrow = panels.filter((panel) => !panel.wide);
		return narrow.length % 2 ? narrow[narrow.length - 1] : null;
	}

	/* [{name, room, make, pending, whole, lone}]: in order, each with a name that the same panel of the next document
	 * has too; `whole`: it shows more when all has come. */
	function wanted(report) {
		const list = [], used = new Map(), lone = loneOf(report.panels);
		const want = function (name, room, make, pending) {
			const count = (used.get(name) || 0) + 1;
			used.set(name, count);
			list.push({name: name + "\n" + count, room: room, make: make, pending: pending});
		};
		const plain = (name, make) => want(name, make, make);
		if (report.warnings && report.warnings.length)
			plain("warnings", () => texts("Warnings", report.warnings, "ls-warnings ls-wide"));
		for (const panel of report.panels) {
			want(panel.kind === "verdict" ? "verdict" : "panel " + panel.title, () => roomOf(panel),
				() => panelOf(panel, report),
				panel.kind === "pending");
			list[list.length - 1].lone = panel === lone;
		}
		if (report.assumptions && report.assumptions.length)
			plain("assumptions", () => texts("Assumptions", report.assumptions, "ls-wide"));
		if (report.reproduce) plain("command", () => command(report));
		if (report.inputs && report.inputs.length) plain("inputs", () => inputs(report));
		plain("foot", () => foot(report));
		list[list.length - 1].whole = true;
		return list;
	}

	/* ---- places: a section each, what is to be drawn in it, whether it is in view and still to come ---- */

	const held = new WeakMap();

	function Report(element) {
		const self = this;
		this.element = element;
		this.head = ls.el("header");
		this.grid = ls.el("main", "ls-grid-panels");
		this.places = new Map();
		this.watch = new IntersectionObserver(function (entries) {
			for (const entry of entries) {
				const place = entry.target.lsPlace;
				if (place && place.section === entry.target) place.seen = entry.isIntersecting;
			}
			self.draw((place) => place.seen);
		});
		element.classList.add("ls-report");
		element.replaceChildren(this.head, this.grid);
	}

	Report.prototype.put = function (place, section) {
		if (place.section) {
			/* Numbers that are open stay open. */
			const open = place.section.querySelector(".ls-numbers[open]"),
				next = open && section.querySelector(".ls-numbers");
			if (next) next.open = true;
			this.watch.unobserve(place.section);
			place.section.replaceWith(section);
		}
		place.section = section;
		section.classList.toggle("ls-lone", Boolean(place.lone));
		section.lsPlace = place;
		this.watch.observe(section);
	};

	/* Draws the places that are due and wanted now. */
	Report.prototype.draw = function (now) {
		let some = false;
		for (const place of this.places.values()) {
			if (!place.due || !now(place)) continue;
			const make = place.due;
			place.due = null;
			this.put(place, make());
			some = true;
		}
		if (some) ls.drawFresh();
	};

	/* The rest, a place at a time. */
	Report.prototype.drawRest = function () {
		const self = this;
		for (const place of this.places.values())
			if (place.due) ls.later(() => self.draw((other) => other === place));
		ls.later(function () {
			self.element.classList.remove("ls-quick");
			self.element.removeAttribute("aria-busy");
		});
	};

	/* The places of the document, in its order; what it lacks goes. */
	Report.prototype.order = function (list) {
		const next = new Map();
		for (const w of list) next.set(w.name, this.places.get(w.name)
			|| {section: null, due: null, seen: false, pending: false});
		for (const [name, place] of this.places) {
			if (next.has(name)) continue;
			place.due = null;
			this.watch.unobserve(place.section);
			place.section.remove();
		}
		this.places = next;
	};

	/* What is to be done at a place that had a section before. */
	function again(place, w, rest) {
		if (w.pending) place.section.classList.add("ls-stale"), place.due = null;
		else if (!rest || w.whole || place.pending) place.due = w.make;
	}

	Report.prototype.show = function (report, rest) {
		const list = wanted(report);
		this.order(list);
		let at = this.grid.firstChild; /* of what is left */
		list.forEach(function (w, i) {
			const place = this.places.get(w.name);
			place.lone = w.lone;
			if (place.section) {
				place.section.classList.toggle("ls-lone", Boolean(w.lone));
				again(place, w, rest);
			}
			else {
				this.put(place, w.room());
				place.due = w.make, place.seen = i < FIRST;
			}
			place.pending = w.pending;
			if (place.section === at) at = at.nextSibling;
			else this.grid.insertBefore(place.section, at);
		}, this);
		if (!rest) {
			const named = head(report);
			this.head.replaceWith(named);
			this.head = named;
		}
		this.element.setAttribute("aria-busy", "true");
		this.draw((place) => place.seen);
		this.drawRest();
	};

	window.lockstepReport = function (element, report, rest) {
		ls.untip();
		if (!held.has(element)) held.set(element, new Report(element));
		else {
			element.classList.add("ls-quick");
			ls.hold();
		}
		held.get(element).show(report, rest);
	};

	/* A page that holds its document shows it at once. */
	const document_ = document.getElementById("document"), place = document.getElementById("lockstep");
	if (document_ && place) window.lockstepReport(place, JSON.parse(document_.textContent));
})(window.lockstep = window.lockstep || {});
