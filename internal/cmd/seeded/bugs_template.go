package main

const (
	templateFile     = "internal/decode/json_template.go"
	templateMakeFile = "internal/decode/json_template_make.go"
)

// templateBugs are bugs in the templates of parts.
var templateBugs = []bug{
	{name: "a null fits the place of a value", run: "TestTemplateFits", in: "./internal/decode", edits: one(templateFile,
		"	case is == 'n' && was != 'n':\n", "	case is == 'n' && was == 'n':\n")},
	{name: "a map is that of the template", run: "TestTemplateFits", in: "./internal/decode", edits: one(templateFile,
		"l := &t.leaves[next]; l.fresh {\n				d.changes", "l := &t.leaves[next]; l.fresh && next < 0 {\n				d.changes")},
	{name: "values are decoded into those of the template", run: "TestTemplateSharesNothing|TestTemplateFits", in: "./internal/decode", edits: one(templateMakeFile,
		"		if l.fresh {\n			l.at", "		if !l.fresh {\n			l.at")},
	{name: "what a template has made in part is merged into", run: "TestTemplateErrors", in: "./internal/decode", edits: one(templateFile,
		"			part.SetZero()\n", "")},
	{name: "the depth of a value is not that in its part", run: "TestTemplateFits", in: "./internal/decode", edits: one(templateFile,
		"		d.p.pos, d.p.depth = c.start, depth+l.depth\n", "		d.p.pos, d.p.depth = c.start, depth\n")},
	{name: "the known end is that of the next value", run: "TestTemplateFits", in: "./internal/decode", edits: one("internal/decode/json_raw.go",
		"k.start == p.pos && k.end > k.start {", "k.end > k.start {")},
	{name: "a value that was cut off gives up templates", run: "TestTemplateOfCutObject", in: "./internal/decode", edits: one(templateFile,
		"	if len(ts.all) > 0 && d.p.src == nil {\n", "	if len(ts.all) > 0 {\n")},
	{name: "templates that do not fit are compared for ever", run: "TestTemplatesMustPay", in: "./internal/decode", edits: one(templateFile,
		"		if ts.score--; ts.score < 0 {\n", "		if ts.score < 0 {\n")},
	{name: "the last template that fitted is not the first", run: "TestTemplatesEarnOthers", in: "./internal/decode", edits: one(templateFile,
		"		ts.all[0], ts.all[i] = t, ts.all[0]\n", "		ts.all[i] = t\n")},
	{name: "templates are made without a limit", run: "TestTemplatesMustPay", in: "./internal/decode", edits: one(templateMakeFile,
		"	case ts.credit < templateCost:\n		return\n", "	case ts.credit < 0:\n		return\n")},
	{name: "templates cost nothing", run: "TestTemplatesEarnOthers", in: "./internal/decode", edits: one(templateMakeFile,
		"		ts.credit -= templateCost\n", "		ts.credit -= 1\n")},
	{name: "templates are kept without a limit", run: "TestTemplatesAreBounded", in: "./internal/decode", edits: one(templateMakeFile,
		"	if d.templateBytes+t.size <= maxTemplateBytes {\n", "	if t.size <= maxTemplateBytes {\n")},
	{name: "a name that comes twice is in a template", run: "TestNoTemplate", in: "./internal/decode", edits: one(templateMakeFile,
		"		ok = !known[at]\n", "		ok = !known[at] || at.region == 0\n")},
	{name: "a pointer that is gone is in a template", run: "TestNoTemplate", in: "./internal/decode", edits: one(templateMakeFile,
		"		if !ok || m.from.target() != (pointer{m.memory.data}) {\n", "		if !ok {\n")},
	{name: "what is skipped is in a template", run: "TestNoTemplate", in: "./internal/decode", edits: one("internal/decode/json_struct.go",
		"		d.rec.fail()\n		if m.skipped", "		if m.skipped")},
	{name: "a program makes types without a limit", run: "TestShapesAreBounded", in: "./internal/decode", edits: one(templateMakeFile,
		"	if shape == nil && len(shapes) < maxShapes {\n", "	if shape == nil {\n")},
	{name: "templates of CBOR, which they hardly ever fit", run: "TestNoTemplateOfCBOR", in: "./internal/decode", edits: one(templateMakeFile,
		"case d.rotated, d.p.src != nil", "case d.p.src != nil")},
	{name: "templates of equal parts with Share", run: "TestNoTemplateWithShare", in: "./internal/decode", edits: one("internal/decode/reuse_parts_json.go",
		"	copies := !share && typ", "	copies := typ")},
}
