package main

const (
	cborItemFile   = "internal/decode/cbor_item.go"
	cborJSONFile   = "internal/decode/cbor_json.go"
	cborScalarFile = "internal/decode/cbor_scalar.go"
	cborStreamFile = "internal/decode/stream_cbor.go"
	codecFile      = "internal/rest/codec.go"

	decodePackage = "./internal/decode"
	restPackage   = "./internal/rest"
)

// cborBugs are of CBOR: of the form of its items, of their JSON, and of lists and watches.
var cborBugs = []bug{
	{name: "CBOR: a break ends a map behind a key", run: "TestCBORMalformed", in: decodePackage, edits: one(cborItemFile,
		" || in.major == cborMap && in.items%2 == 1 {", " {")},
	{name: "CBOR: a string may have pieces of any sort", run: "TestCBORMalformed", in: decodePackage, edits: one(cborItemFile,
		"in != nil && in.major <= cborText && (h.major", "false && (h.major")},
	{name: "CBOR: a tag may stand before nothing", run: "TestCBORMalformed", in: decodePackage, edits: one(cborItemFile,
		"			w.tagged = true\n", "")},
	{name: "CBOR: the sum of a length overflows", run: "TestCBORMalformed", in: decodePackage, edits: one(cborItemFile,
		"h.arg > uint64(len(data)-w.n-h.size)", "uint64(w.n+h.size)+h.arg > uint64(len(data))")},
	{name: "CBOR: items nest without a limit", run: "TestCBORNesting", in: decodePackage, edits: one(cborItemFile,
		"	if len(w.open) == maxDepth {", "	if false {")},
	{name: "CBOR: a negative number is one off", run: "TestCBORItems|TestCBOREqualsJSON", in: decodePackage, edits: one(cborScalarFile,
		"strconv.AppendUint(append(c.out, '-'), n+1, 10)", "strconv.AppendUint(append(c.out, '-'), n, 10)")},
	{name: "CBOR: half numbers have another exponent", run: "TestCBORItems|TestCBOREqualsJSON", in: decodePackage, edits: one(cborScalarFile,
		"math.Ldexp(1024+frac, exp-25)", "math.Ldexp(1024+frac, exp-24)")},
	{name: "CBOR: a number that is not finite passes", run: "TestCBORInvalidItems|TestCBORObjectThatDoesNotFit", in: decodePackage, edits: one(cborScalarFile,
		"	if math.IsNaN(f) || math.IsInf(f, 0) {", "	if false {")},
	{name: "CBOR: text that is no UTF-8 passes", run: "TestCBORInvalidItems", in: decodePackage, edits: one(cborScalarFile,
		"h.major == cborText && !utf8.Valid(s)", "false && !utf8.Valid(s)")},
	{name: "CBOR: a quote is not escaped", run: "TestCBORItems|TestCBOREqualsJSON", in: decodePackage, edits: one(cborScalarFile,
		"		case b == '\"' || b == '\\\\':\n", "		case b == '\\\\':\n")},
	{name: "CBOR: bytes are written as text", run: "TestCBORItems|TestCBOREqualsJSON", in: decodePackage, edits: one(cborJSONFile,
		"			as = h.arg\n", "			as = plainText\n")},
	{name: "CBOR: JSON has no limit", run: "TestCBORLimit", in: decodePackage, edits: one(cborJSONFile,
		"	case len(c.out) > c.limit:", "	case false:")},
	{name: "CBOR: an error has the offset in JSON", run: "TestCBORObjectThatDoesNotFit", in: decodePackage, edits: one(cborStreamFile,
		"			e.Offset = c.base + int64(again.pos)\n", "			e.Offset += c.base\n")},
	{name: "CBOR: what JSON cannot have is set aside without a name", run: "TestCBORObjectThatDoesNotFit", in: decodePackage, edits: one(cborStreamFile,
		"		id, wrong := d.identifyCBOR(c)\n", "		id, wrong := Ident{}, error(nil)\n")},
	{name: "CBOR: what JSON cannot have ends the watch", run: "TestCBORObjectThatDoesNotFit", in: decodePackage, edits: one(cborStreamFile,
		"	if err == nil && isChange(ev.Type) {", "	if false {")},
	{name: "CBOR: what JSON cannot have is null in an event", run: "TestCBORObjectThatDoesNotFit|TestCBORWatch", in: decodePackage, edits: one(cborStreamFile,
		"wrong == nil || status {", "true || status {")},
	{name: "CBOR: a list that is cut off is a shorter list", run: "TestCBORListCut", in: decodePackage, edits: one(cborStreamFile,
		"	c, err := b.firstByte()\n	if err != nil {\n		return false, b.truncated(err)\n	}\n	if c != cborBreak", "	c, err := b.firstByte()\n	if err != nil {\n		return false, nil\n	}\n	if c != cborBreak")},
	{name: "CBOR: an item does not wait for the kind of its list", run: "TestCBORItemsWithoutKind", in: decodePackage, edits: one("internal/decode/stream_list.go",
		"	if len(l.held) > 0 ||", "	if false &&")},
	{name: "CBOR: bytes behind the list are not looked at", run: "TestCBORListForms", in: decodePackage, edits: one(cborStreamFile,
		"	case err == nil:\n", "	case false:\n")},
	{name: "CBOR: a Status is read as JSON", run: "TestCBORStatus", in: decodePackage, edits: one("internal/decode/decode.go",
		"	if enc == CBOR {\n		data", "	if false {\n		data")},
	{name: "CBOR is asked for by default", run: "TestAnotherEncoding|TestAcceptCBOR", in: restPackage, edits: one(codecFile,
		"		onRequest: true,\n", "")},
	{name: "CBOR: the type of a stream is not known", run: "TestHTTPCBOR", edits: one(codecFile,
		"		stream:    cborStream,\n", "		stream:    cborType,\n")},
	{name: "CBOR: metadata is asked for without parameters", run: "TestAcceptCBOR", in: restPackage, edits: one(codecFile,
		"params == \"\" || !cbor {", "true {")},
}
