package markup

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDocument(t *testing.T) {
	var w Writer
	w.Verbatim("<!DOCTYPE html>")
	w.Line()
	w.Open("html", Attr{"lang", "en"})
	w.Void("meta", Attr{"charset", "utf-8"})
	w.Open("p")
	w.Text("a < b & ")
	w.Element("b", `"c"`, Attr{"title", `<'">`})
	w.Close()
	w.Close()
	want := "<!DOCTYPE html>\n" +
		`<html lang="en"><meta charset="utf-8"/><p>a &lt; b &amp; <b title="&lt;&#39;&#34;&gt;">&#34;c&#34;</b></p></html>`
	if got := w.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOpenElement(t *testing.T) {
	defer func() {
		if v := recover(); v != "markup: p is not closed" {
			t.Errorf("panic %v", v)
		}
	}()
	var w Writer
	w.Open("html")
	w.Open("p")
	_ = w.String()
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "",
		"Größe\t世界\n🙂":          "Größe\t世界\n🙂",
		"a\x00b\x1bc\rd\x7f":    "a\uFFFDb\uFFFDc\uFFFDd\uFFFD",
		"\xffok\xc3":            "\uFFFDok\uFFFD",
		"user\u202Enimda":       "user\uFFFDnimda",
		"zero\u200Bwidth\uFEFF": "zero\uFFFDwidth\uFFFD",
		"\uFFFE":                "\uFFFD",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever text and attributes are, a parser finds them again, and no other element.
func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SampledFrom([]string{"<", ">", "&", "'", `"`, "]]>", "-->", "</p>", "<script>", "&lt;", "\x00", "\xff",
			"\n", "a"})
		any := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(part),
			func(s []string) string { return strings.Join(s, "") }))
		text, value := any.Draw(t, "text"), any.Draw(t, "value")
		var w Writer
		w.Element("p", text, Attr{"title", value})
		d := xml.NewDecoder(strings.NewReader(w.String()))
		gotText, gotValue, elements := "", "", 0
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", w.String(), err)
			}
			switch token := token.(type) {
			case xml.StartElement:
				elements++
				gotValue = token.Attr[0].Value
			case xml.CharData:
				gotText += string(token)
			case xml.EndElement:
			default:
				t.Fatalf("%s has a %T", w.String(), token)
			}
		}
		if elements != 1 || gotText != printable(text) || gotValue != printable(value) {
			t.Fatalf("%s\nis %d elements, text %q, attribute %q\nwant %q, %q", w.String(), elements, gotText, gotValue,
				printable(text), printable(value))
		}
	})
}
