/* verdict.js: the answer in one line, its figures, what was asked; and plain texts. */
(function (ls) {
	"use strict";

	ls.panels.verdict = function (panel, box) {
		const head = ls.el("div", "ls-verdict ls-state-" + ls.key(panel.state || "plain"),
			ls.el("h2", "", ls.el("span", "ls-verdict-mark"), panel.title));
		if (panel.detail) head.append(ls.el("p", "", panel.detail));
		box.append(head);
		if (panel.figures && panel.figures.length) {
			const list = ls.el("dl", "ls-figures");
			for (const f of panel.figures) {
				const one = ls.el("div", "", ls.el("dt", "", f.label), ls.el("dd", "ls-value", f.value));
				if (f.range) one.append(ls.el("dd", "ls-figure-range", f.range));
				if (f.note) one.append(ls.el("dd", "ls-note", f.note));
				list.append(one);
			}
			box.append(list);
		}
		if (panel.facts && panel.facts.length) {
			const list = ls.el("dl", "ls-facts");
			for (const f of panel.facts) list.append(ls.el("dt", "", f.label), ls.el("dd", "", f.text));
			box.append(list);
		}
	};

	/* A panel that will come. */
	ls.panels.pending = function (panel, box) {
		box.append(ls.el("p", "ls-note", panel.text));
	};

	ls.panels.text = function (panel, box) {
		for (const line of panel.lines || []) box.append(ls.el("p", "", line));
	};

	/* A command or launch line to take away. */
	ls.panels.command = function (panel, box, frame) {
		const button = ls.button("Copy", "copy the command", () => ls.copy(panel.command, button));
		frame.tools.append(button);
		box.append(ls.el("pre", "ls-command", panel.command));
	};
})(window.lockstep = window.lockstep || {});
