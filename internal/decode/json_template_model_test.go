package decode

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// templateValues are values of a spec's members: some fit a template of another, some are errors.
var templateValues = map[string][]string{
	"str":        {`""`, `"a"`, `"a string of some length"`, `"\u00e9\n"`, `null`, `1`},
	"named":      {`"b"`, `"c"`, `"` + strings.Repeat("long ", 40) + `"`},
	"strP":       {`"a"`, `"b"`, `null`},
	"flag":       {`true`, `false`, `null`},
	"flagP":      {`true`, `false`, `null`},
	"I":          {`0`, `1`, `12`, `-123456789012`, `1.5`, `null`},
	"i8":         {`1`, `-12`, `127`, `128`},
	"f64":        {`1`, `1.5`, `-1e30`, `"1"`},
	"bytes":      {`"AAEC"`, `"AQ=="`, `""`, `null`, `"A"`},
	"quoted":     {`"1"`, `"12"`, `1`, `null`},
	"any":        {`1`, `"a"`, `{"a":[1,{"b":null}]}`, `[]`, `null`},
	"number":     {`1`, `1.25`, `"2"`},
	"time":       {`"2026-03-04T05:06:07Z"`, `"2025-03-04T05:06:07+01:00"`, `null`, `"x"`},
	"timeP":      {`"2026-03-04T05:06:07Z"`, `"2025-03-04T05:06:07Z"`, `null`},
	"micro":      {`"2026-03-04T05:06:07.000001Z"`, `null`},
	"durM":       {`"1s"`, `"2m"`, `null`},
	"qty":        {`"1Gi"`, `"100m"`, `5`, `"0.123456789123456789123"`, `null`, `"x"`},
	"qtyP":       {`"1Gi"`, `"123456789012345678901234567890"`, `null`},
	"intStr":     {`1`, `80`, `"http"`, `"x"`, `null`},
	"portP":      {`1`, `80`, `"http"`, `null`},
	"extP":       {`{"kind":"A"}`, `{}`, `[1]`, `null`},
	"fields":     {`{"f:a":{}}`, `{"f:a":{"f:b":{}},"k:{\"a\":1}":{}}`, `{}`, `null`},
	"raw":        {`{"a":1}`, `"s"`, `12`, `1`, `null`},
	"text":       {`"a"`, `"b"`},
	"sel":        {`{"matchLabels":{"a":"b"}}`, `{"matchLabels":{"a":"c","d":"e"}}`, `{"matchExpressions":[{"key":"k","operator":"In","values":["a","b"]}]}`, `{}`, `null`},
	"strs":       {`["a","b"]`, `["b","c"]`, `["a"]`, `[]`, `null`, `["a",null]`},
	"structs":    {`[{"refKind":"a","refUID":1},{}]`, `[{"refKind":"b","refUID":12},{}]`, `[{"refKind":"b","refUID":null},{}]`, `[{}]`, `null`},
	"ptrs":       {`[{"refName":"a"},null]`, `[{"refName":"b"},null]`, `[null,{"refName":"b"}]`, `[]`},
	"deep":       {`[[1,2],[3]]`, `[[4,5],[6]]`, `[[1],[2,3]]`, `[[],null]`},
	"array":      {`[1,2]`, `[3]`, `null`},
	"m":          {`{"a":"b"}`, `{"c":"d","e":"f"}`, `{}`, `null`},
	"mq":         {`{"cpu":"1"}`, `{"cpu":"2","memory":"1Gi"}`},
	"ms":         {`{"a":{"refKind":"b"}}`, `{"c":{"refUID":5}}`},
	"pp":         {`1`, `12`, `null`},
	"self":       {`{"a":{"ext":{"a":1}}}`, `{"b":{"ext":[2],"str":"x"}}`},
	"list":       {`[{"str":"a","portP":1}]`, `[{"str":"b","portP":"x"}]`, `[{"str":"c","list":[{"fields":{}}]}]`, `[{"str":"d","list":[{"fields":{"f:x":{}}}]}]`},
	"refName":    {`"a"`},
	"refKind":    {`"a"`, `"b"`},
	"inline":     {`"a"`, `"b"`},
	"unknown":    {`1`, `{"a":[]}`},
	"fla\\u0067": {`true`, `false`},
}

// A sequence of specs that have much in common is decoded as apimachinery decodes each.
func TestTemplateModel(t *testing.T) {
	names := slices.Sorted(maps.Keys(templateValues))
	d := newTemplater[*sink](t, Options{})
	rapid.Check(t, func(t *rapid.T) {
		forgetTemplates(d)
		chosen := rapid.SliceOfN(rapid.SampledFrom(names), 1, 12).Draw(t, "names")
		if rapid.Bool().Draw(t, "each once") {
			slices.Sort(chosen)
			chosen = slices.Compact(chosen)
		}
		values := map[int]string{}
		for range rapid.IntRange(2, 12).Draw(t, "objects") {
			var b strings.Builder
			b.WriteString(`"own":"` + strings.Repeat("x", minPattern) + `"`)
			for i, name := range chosen {
				if values[i] == "" || rapid.IntRange(0, 3).Draw(t, "changes") == 0 {
					values[i] = rapid.SampledFrom(templateValues[name]).Draw(t, name)
				}
				b.WriteString(`,"` + name + `":` + values[i])
			}
			checkSame(t, d, spec(b.String()))
		}
	})
}
