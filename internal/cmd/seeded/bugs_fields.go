package main

const (
	maskFile  = "internal/decode/mask.go"
	crPackage = "./controllerruntime"
)

// fieldsBugs are of what Only and Drop leave out.
var fieldsBugs = []bug{
	{name: "a mask does not keep the identity", run: "TestOnly$", in: "./internal/decode", edits: one(maskFile,
		`		if m.chosen && follow(t, path, "keep") == nil {`, `		if m.chosen && follow(t, path, "keep") != nil {`)},
	{name: "a mask does not keep the identity of an untyped object", run: "TestOnlyUntyped", in: "./internal/decode", edits: one(maskFile,
		"append(append(m.only, identityPaths...), opts.Only...)", "opts.Only")},
	{name: "a whole field is cut by a path below it", run: "TestOnly$", in: "./internal/decode", edits: one(maskFile,
		"		case fits:\n			return mask{drop: rest.drop}, false\n", "		case fits:\n			skip = false\n")},
	{name: "what Only keeps is kept although Drop has it", run: "TestMaskEqualsPrune", in: "./internal/decode", edits: one(maskFile,
		"			return mask{drop: rest.drop}, false\n", "			return mask{}, false\n")},
	{name: "presence keeps no elements", run: "TestOnly$", in: "./internal/decode", edits: one(maskFile,
		"	m.present = false\n", "")},
	{name: "a prefix is the name of a key", run: "TestOnly$", in: "./internal/decode", edits: one(maskFile,
		"ok && prefixes && strings.HasPrefix(name, prefix) {", "ok && prefixes && name == prefix {")},
	{name: "a key ends at its dot", run: "TestOnly$", in: "./internal/decode", edits: one(maskFile,
		"		switch fits, present := matches(path, name, true); {\n		case fits && present:\n			class = keyPresent",
		"		path, _, _ = strings.Cut(path, \".\")\n		switch fits, present := matches(path, name, true); {\n		case fits && present:\n			class = keyPresent")},
	{name: "a map without keys is empty", run: "TestMapsWithoutKeys", in: "./internal/decode", edits: one("internal/decode/json_map.go",
		"masked: !keep.all(), leavesNil: keep.leavesNil()}", "masked: !keep.all()}")},
	{name: "keys that are left out are in protobuf", run: "TestOnly$", in: "./internal/decode", edits: one("internal/decode/proto_repeated.go",
		"	if err == nil && m.masked {\n", "	if err == nil && m.masked && m.keep.present {\n")},
	{name: "a part that is too large for its note is taken", run: "TestLargeMaskedParts", in: "./internal/decode", edits: one(partsFile,
		"uint32(min(uint64(len(raw)), uint64(l.most)))", "uint32(len(raw))")},
	{name: "a path to nothing is taken", run: "TestWrongPaths", in: "./internal/decode", edits: one(maskFile,
		`			return m, &PathError{"Only", err}`+"\n		}\n		m.only", `			continue`+"\n		}\n		m.only")},
	{name: "a path below what decodes itself is taken", run: "TestWrongPaths", in: "./internal/decode", edits: one(maskFile,
		"	if specialDecoder(t) != nil {\n		return fmt.Errorf(\"%v decodes itself: it has", "	if specialDecoder(t) != nil && path == \"\" {\n		return fmt.Errorf(\"%v decodes itself: it has")},
	{name: "an object that is decoded again is whole", run: "TestMaskEqualsPrune|FuzzMask", in: "./internal/decode", edits: one("internal/decode/root.go",
		"newWireCompiler(false, d.root.projection).message(d.root.elem, d.root.keep)", "newWireCompiler(false, d.root.projection).message(d.root.elem, mask{})")},
	{name: "a list that comes twice replaces the first one", run: "TestMaskedNamesTwice", in: "./internal/decode", edits: one("internal/decode/json_slice.go",
		"		return false, s.decodeInto(d, p)\n", "		p.value(s.typ).SetZero()\n")},
	{name: "the mask of a member is forgotten", run: "TestOnlyUntyped", in: "./internal/decode", edits: one(maskFile,
		"		m.known[strings.Clone(name)] = rest\n", "		m.known[strings.Clone(name)] = mask{}\n")},
	{name: "a type that decodes itself is asked for in protobuf with a mask", run: "TestProtobufOfMasks", in: "./internal/decode", edits: one("internal/decode/root.go",
		"d.root.unmarshal && d.root.keep.all()", "d.root.unmarshal")},

	// Of those who take fields.
	{name: "HTTP.Only has no effect", run: "TestHTTPOnly", edits: one("http.go",
		"Drop: h.Drop, Only: h.Only, ", "Drop: h.Drop, ")},
	{name: "presence keeps what is below it", run: "TestFieldsKeeps", edits: one("fields.go",
		"	case presence && !asked:\n", "	case presence && !asked && path == \"\":\n")},
	{name: "a name keeps those that begin with it", run: "TestFieldsKeeps", edits: one("fields.go",
		"	return below && (tail == \"\" || tail[0] == '.')", "	return below || tail == \"\"")},
	{name: "the fields of one kind are those of all", run: "TestNewCacheOnly", in: crPackage, edits: one("controllerruntime/masks.go",
		"	return m[formOf(obj)]\n", "	for _, fields := range m {\n		return fields\n	}\n	return nil\n")},
	{name: "a status is written although it lacks fields", run: "TestGuard", in: crPackage, edits: one("controllerruntime/guard.go",
		"func (c *guarded) Status() client.SubResourceWriter { return c.SubResource(\"status\") }\n\n", "")},
	{name: "a patch replaces a list of which a part is kept", run: "TestGuard", in: crPackage, edits: one("controllerruntime/guard.go",
		"	members, ok := patch.(map[string]any)\n", "	if _, list := patch.([]any); list {\n		return \"\", false\n	}\n	members, ok := patch.(map[string]any)\n")},
	{name: "any patch is sent", run: "TestGuard", in: crPackage, edits: one("controllerruntime/guard.go",
		"	if p.Type() != types.MergePatchType {", "	if p.Type() == types.ApplyPatchType {")},
	{name: "the settings of one kind are those of all", run: "TestOptionsB", in: crPackage, edits: one("controllerruntime/settings.go",
		"	own := s.byForm[f]\n", "	var own lw.Options\n	for _, own = range s.byForm {\n	}\n")},
	{name: "a second cache of one board conflicts", run: "TestOptionsMetrics", in: crPackage, edits: one("controllerruntime/settings.go",
		"		if there.ExistingCollector == collector {", "		if there.ExistingCollector == nil {")},
}
