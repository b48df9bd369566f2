package main

const (
	templateFile      = "internal/decode/json_template.go"
	reuseTemplateFile = "internal/decode/reuse_template.go"
	templateMakeFile  = "internal/decode/reuse_template_make.go"
	wireTemplateFile  = "internal/decode/proto_template.go"
)

// templateBugs are bugs in the templates of parts.
var templateBugs = []bug{
	{name: "a null fits the place of a value", run: "TestTemplateFits", in: "./internal/decode", edits: one(templateFile,
		"	case is == 'n' && was != 'n':\n", "	case is == 'n' && was == 'n':\n")},
	{name: "a map is that of the template", run: "TestTemplateFits", in: "./internal/decode", edits: one(templateFile,
		"l := &t.leaves[next]; l.fresh {\n				d.changes", "l := &t.leaves[next]; l.fresh && next < 0 {\n				d.changes")},
	{name: "values are decoded into those of the template", run: "TestTemplateSharesNothing|TestTemplateFits", in: "./internal/decode", edits: one(templateMakeFile,
		"l := &t.leaves[i]; l.fresh {\n			l.at", "l := &t.leaves[i]; !l.fresh {\n			l.at")},
	{name: "what a template has made in part is merged into", run: "TestTemplateErrors", in: "./internal/decode", edits: one(reuseTemplateFile,
		"			p.value(t.root.Type()).SetZero()\n", "")},
	{name: "the depth of a value is not that in its part", run: "TestTemplateFits", in: "./internal/decode", edits: one(templateFile,
		"	d.p.pos, d.p.depth = c.start, depth+int(l.depth)\n", "	d.p.pos, d.p.depth = c.start, depth\n")},
	{name: "the known end is that of the next value", run: "TestTemplateFits", in: "./internal/decode", edits: one("internal/decode/json_raw.go",
		"k.start == p.pos && k.end > k.start {", "k.end > k.start {")},
	{name: "a value that was cut off gives up templates", run: "TestTemplateOfCutObject", in: "./internal/decode", edits: one(reuseTemplateFile,
		"	if w == nil && (d.p.src != nil || d.rotated) {\n", "	if w == nil && d.rotated {\n")},
	{name: "templates that do not fit are compared for ever", run: "TestTemplatesMustPay", in: "./internal/decode", edits: one(reuseTemplateFile,
		"		if ts.score--; ts.score < 0 {\n", "		if ts.score < 0 {\n")},
	{name: "the last template that fitted is not the first", run: "TestTemplatesEarnOthers", in: "./internal/decode", edits: one(reuseTemplateFile,
		"		copy(ts.all[1:i+1], ts.all[:i])\n		ts.all[0] = t\n", "		_ = ts.all[:i]\n")},
	{name: "templates are made without a limit", run: "TestTemplatesMustPay", in: "./internal/decode", edits: one(reuseTemplateFile,
		"	case ts.credit < templateCost:\n", "	case ts.credit < 0:\n")},
	{name: "templates cost nothing", run: "TestTemplatesEarnOthers", in: "./internal/decode", edits: one(reuseTemplateFile,
		"		ts.credit -= templateCost\n", "		ts.credit -= 1\n")},
	{name: "templates are kept without a limit", run: "TestTemplatesWithoutRoom", in: "./internal/decode", edits: one(templateMakeFile,
		"t.size = t.bytes(); d.templateBytes+t.size <= maxTemplateBytes {\n", "t.size = t.bytes(); t.size <= maxTemplateBytes {\n")},
	{name: "a name that comes twice is in a template", run: "TestNoTemplate", in: "./internal/decode", edits: one(templateFile,
		"		seen[i/64] |= 1 << (i % 64)\n", "")},
	{name: "a field that comes twice is in a template", run: "TestNoWireTemplate", in: "./internal/decode", edits: one(wireTemplateFile,
		"		seen[num/64] |= 1 << (num % 64)\n", "")},
	{name: "a message has any length", run: "TestWireTemplate", in: "./internal/decode", edits: one(wireTemplateFile,
		"return b, unequal == 0\n", "return b, true\n")},
	{name: "an entry more is that of the template", run: "TestWireTemplateFits", in: "./internal/decode", edits: one(wireTemplateFile,
		"int(k.end) == a && hasTag(data[b:], tag) {", "int(k.end) == a && false {")},
	{name: "what is skipped is in a template", run: "TestNoTemplate", in: "./internal/decode", edits: one(templateFile,
		" || s.members[i].dec == nil {", " {")},
	{name: "a program makes types without a limit", run: "TestShapesAreBounded", in: "./internal/decode", edits: one(templateMakeFile,
		"	if shape == nil && len(shapes) < maxShapes {\n", "	if shape == nil {\n")},
	{name: "templates of CBOR, which they hardly ever fit", run: "TestNoTemplateOfCBOR", in: "./internal/decode", edits: one(reuseTemplateFile,
		"d.p.src != nil || d.rotated) {", "d.p.src != nil) {")},
	{name: "templates of equal parts with Share", run: "TestNoTemplateWithShare", in: "./internal/decode", edits: one("internal/decode/reuse_parts_json.go",
		"	copies := !share && part.typ", "	copies := part.typ")},
}
