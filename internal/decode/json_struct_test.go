package decode

import "testing"

// Each object guesses its names from the one before. So each of these is decoded behind each other
// one: with names that begin other names, in other orders, twice, with escapes, in another case,
// cut off, and with white space.
func TestGuessNames(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	specs := []string{
		`{"str":"a","strP":"b","strs":["c"],"structs":[{"refKind":"k"}],"i8":1}`,
		`{"strP":"b","str":"a","i8":1,"structs":[],"strs":["c"]}`,
		`{"str":"a","str":"b","strP":"c","strP":"d"}`,
		`{"str":"a","st\u0072P":"b","\u0073trs":["c"]}`,
		`{"str":"a","STRP":"b","Strs":["c"],"StrP":"d"}`,
		`{"str":"a","strP" :"b","strs"
			:["c"], "structs":null , "i8":2}`,
		`{"str":"a","strPP":"b","strsx":["c"],"st":1,"s":2,"":3}`,
		`{"str":"a","unknown":{"str":"x"},"strP":"b","u8":3}`,
		`{}`, `{"I":1}`, `{"m":{}}`, `{"str":"a","i8":1`, `{"str`, `{"str"`, `{"str":`, `{"str":"a","st`, `{"str":"a" "strP":"b"}`, `{"str":"a",}`,
	}
	for _, a := range specs {
		for _, b := range specs {
			for _, spec := range []string{a, b, a, a} {
				checkSame(t, d, []byte(`{"metadata":{"name":"a"},"spec":`+spec+`}`))
			}
		}
	}
}
