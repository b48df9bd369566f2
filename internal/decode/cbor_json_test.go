package decode

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// fromHex returns the bytes that s has in hexadecimal digits, between which may be spaces.
func fromHex(t fataler, s string) []byte {
	t.Helper()
	data, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	ok(t, err)
	return data
}

// transcode writes data, which is one item, as JSON.
func transcode(data []byte, lenient bool) (string, error) {
	var w cborWalk
	if done, err := w.walk(data); err != nil {
		return "", fmt.Errorf("%w: %v", errCBOR, err)
	} else if !done {
		return "", io.ErrUnexpectedEOF
	} else if w.n < len(data) {
		return "", fmt.Errorf("%w: more", errCBOR)
	}
	c := cborToJSON{data: data, limit: MaxObject, lenient: lenient}
	err := c.value(plainText)
	return string(c.out), err
}

// The examples of RFC 8949, appendix A, and others of each sort of item.
func TestCBORItems(t *testing.T) {
	for data, want := range map[string]string{
		"00": "0", "17": "23", "1818": "24", "1903e8": "1000", "1a000f4240": "1000000", "1b000000e8d4a51000": "1000000000000",
		"1bffffffffffffffff": "18446744073709551615", "3bffffffffffffffff": "-18446744073709551616", "20": "-1", "3863": "-100", "3903e7": "-1000",
		"f90000": "0", "f98000": "-0", "f93c00": "1", "fb3ff199999999999a": "1.1", "f93e00": "1.5", "f97bff": "65504", "fa47c35000": "100000",
		"fa7f7fffff": "3.4028234663852886e+38", "fb7e37e43c8800759c": "1e+300", "f90001": "5.960464477539063e-08", "f90400": "0.00006103515625", "f9c400": "-4",
		"fbc010666666666666": "-4.1", "f4": "false", "f5": "true", "f6": "null",
		"60": `""`, "6161": `"a"`, "6449455446": `"IETF"`, "62225c": `"\"\\"`, "62c3bc": `"ü"`, "63e6b0b4": `"水"`, "64f0908591": `"𐅑"`, "43 000a1f": `"\u0000\u000a\u001f"`,
		"40": `""`, "4401020304": `"\u0001\u0002\u0003\u0004"`, "80": "[]", "83010203": "[1,2,3]", "8301820203820405": "[1,[2,3],[4,5]]",
		"a0": "{}", "a26161016162820203": `{"a":1,"b":[2,3]}`, "826161a161626163": `["a",{"b":"c"}]`, "a1 4161 f6": `{"a":null}`,
		// Of indefinite length.
		"5f42010243030405ff": `"\u0001\u0002\u0003\u0004\u0005"`, "7f657374726561646d696e67ff": `"streaming"`, "7fff": `""`, "9fff": "[]",
		"9f018202039f0405ffff": "[1,[2,3],[4,5]]", "bf61610161629f0203ffff": `{"a":1,"b":[2,3]}`, "bfff": "{}", "a17f6161ff01": `{"a":1}`,
		// Tags: the mark of CBOR, times, encodings of bytes, which hold for all that is within, and
		// one without a meaning.
		"d9d9f7 01": "1", "d9d9f7 d9d9f7 80": "[]", "c0 74 323031332d30332d32315432303a30343a30305a": `"2013-03-21T20:04:00Z"`,
		"c1 1a514b67b0": `"2013-03-21T20:04:00Z"`, "c1 fb41d452d9ec200000": `"2013-03-21T20:04:00.5Z"`, "c1 20": `"1969-12-31T23:59:59Z"`,
		"d6 43 fbff00": `"+/8A"`, "d6 41 00": `"AA=="`, "d5 43 fbff00": `"-_8A"`, "d5 41 00": `"AA"`, "d7 43 fbff00": `"fbff00"`, "d6 82 4100 6100": `["AA==","\u0000"]`,
		"d6 a1 4161 4100": `{"a":"AA=="}`, "d818 41 61": `"a"`, "d6 d5 4100": `"AA"`, "d6 5f 4100 4100 ff": `"AAA="`,
	} {
		got, err := transcode(fromHex(t, data), false)
		if err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", data, got, err, want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s: %s is no JSON", data, got)
		}
	}
}

// What is well-formed and has no JSON is the error of a value, with the way to it, and null if it
// is to be passed over.
func TestCBORInvalidItems(t *testing.T) {
	for data, want := range map[string]struct{ path, text, lenient string }{
		"f97c00": {"", "CBOR: the number +Inf", "null"}, "f97e00": {"", "CBOR: the number NaN", "null"}, "fbfff0000000000000": {"", "CBOR: the number -Inf", "null"},
		"faffc00000": {"", "CBOR: the number NaN", "null"}, "f7": {"", "CBOR: undefined", "null"}, "f0": {"", "CBOR: simple value 16", "null"}, "f8ff": {"", "CBOR: simple value 255", "null"},
		"c249010000000000000000": {"", "CBOR: a number of more than 64 bits", "null"}, "c3 41 00": {"", "CBOR: a number of more than 64 bits", "null"},
		"61ff": {"", "CBOR: text that is no UTF-8", "null"}, "7f 61c3 61bc ff": {"", "CBOR: text that is no UTF-8", "null"},
		"c1 6161": {"", "CBOR: no time", "null"}, "c1 f97e00": {"", "CBOR: no time", "null"}, "c1 1b7fffffffffffffff": {"", "CBOR: a time in the year", "null"}, "c1 c1 00": {"", "CBOR: no time", "null"},
		"a1 01 02": {"", "CBOR: a key that is no string", `{"null":2}`}, "a1 d6 4161 02": {"", "CBOR: a key that is no string", `{"null":2}`}, "a1 a0 02": {"", "CBOR: a key that is no string", `{"null":2}`},
		"a1 61ff 02": {"", "CBOR: text that is no UTF-8", `{"null":2}`}, "a1 82f7a0 02": {"", "CBOR: a key that is no string", `{"null":2}`},
		"a2 4161 82 01 a1 4162 f7 4163 03": {"a[1].b", "CBOR: undefined", `{"a":[1,{"b":null}],"c":3}`}, "9f 01 c2 9f 01 ff ff": {"[1]", "CBOR: a number", "[1,null]"},
	} {
		raw := fromHex(t, data)
		_, err := transcode(raw, false)
		var e *FieldError
		if !errors.As(err, &e) || e.Path() != want.path || !strings.HasPrefix(e.Err.Error(), want.text) || !strings.Contains(err.Error(), "CBOR") {
			t.Errorf("%s: %v, want %q at %q", data, err, want.text, want.path)
		}
		if got, err := transcode(raw, true); err != nil || got != want.lenient || !json.Valid([]byte(got)) {
			t.Errorf("%s, leniently: %s, %v, want %s", data, got, err, want.lenient)
		}
	}
}

// What is not well-formed is told apart from what has not come yet (RFC 8949, appendix F).
func TestCBORMalformed(t *testing.T) {
	for _, data := range []string{
		"1c", "1d", "1e", "3c", "5d", "7e", "9c", "bd", "dc", "fc", "fd", "fe", "f800", "f818", "f81f", "ff", "1f", "3f", "df",
		"81ff", "8200ff", "a1ff", "a100ff", "a20000ff", "bf00ff", "bf000000ff", "9f81ff", "9f829f819f9fffffffff", "c0ff", "9fc0ff",
		"5f00ff", "5f21ff", "5f6100ff", "5f80ff", "5fa0ff", "5fc000ff", "5fe0ff", "7f4100ff", "5f5f4100ffff", "7f7f6100ffff", "bbffffffffffffffff",
	} {
		raw := fromHex(t, data)
		for n := range raw {
			if _, err := transcode(raw[:n], false); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errCBOR) {
				t.Errorf("%s: the first %d bytes: %v", data, n, err)
			}
		}
		if _, err := transcode(raw, false); !errors.Is(err, errCBOR) {
			t.Errorf("%s: %v", data, err)
		}
		// The walk alone finds it, so that the end of an item is never one of another item.
		if _, err := new(cborWalk).walk(raw); err == nil {
			t.Errorf("%s: the walk finds nothing wrong", data)
		}
		if got := CBORToJSON(raw); len(got) > 0 && json.Valid(got) && data[0] != 'f' {
			t.Errorf("%s: %s, as if it were whole", data, got)
		}
	}
	for _, data := range []string{"18", "19", "1a", "1b", "1901", "1a0102", "1b01020304050607", "38", "58", "98", "b8", "d8", "f8", "f900", "fa0000", "fb000000", "41", "61", "5affffffff00", "5bffffffffffffffff010203", "7b7fffffffffffffff010203", "81", "818181818181818181", "8200", "a1", "a20102", "a100", "a2000000", "5f4100", "7f6100", "9f", "9f0102", "bf", "bf01020102", "819f", "9f8000", "9f9f9f9f9fffffffff", "9f819f819f9fffffff", "c0", "d9d9f7", "9bffffffffffffffff"} {
		if _, err := transcode(fromHex(t, data), false); err != io.ErrUnexpectedEOF {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// An item may nest as deep as JSON, and an error in it has a limit as in JSON.
func TestCBORNesting(t *testing.T) {
	for _, open := range []string{"\x81", "\x9f", "\xa1\x61a", "\xbf\x61a"} {
		for depth, fine := range map[int]bool{maxDepth: true, maxDepth + 1: false, 10 * maxDepth: false} {
			data := []byte(strings.Repeat(open, depth))
			inner := byte(0xf6)
			if open[0]&31 == 31 {
				data = append(append(data, inner), bytes.Repeat([]byte{cborBreak}, depth)...)
			} else {
				data = append(data, inner)
			}
			got, err := transcode(data, false)
			if (err == nil) != fine || !fine && !strings.Contains(err.Error(), "more than 10000 levels") {
				t.Errorf("%q, %d deep: %v", open, depth, err)
			}
			if fine && !json.Valid([]byte(got)) {
				t.Errorf("%q, %d deep: no JSON", open, depth)
			}
			if _, err := new(cborWalk).walk(data); (err == nil) != fine {
				t.Errorf("%q, %d deep: the walk says %v", open, depth, err)
			}
			_ = CBORToJSON(data)
		}
	}
	// Tags are passed over one by one.
	if got, err := transcode(append(bytes.Repeat([]byte{0xd8, 0x18}, 1<<20), 0), false); got != "0" || err != nil {
		t.Errorf("behind many tags: %s, %v", got, err)
	}
}

// JSON may take more bytes than CBOR. Its limit is that of an object in JSON.
func TestCBORLimitOfJSON(t *testing.T) {
	for n, fine := range map[int]bool{98: true, 99: false} {
		c := cborToJSON{data: append([]byte{0x58, byte(n)}, bytes.Repeat([]byte{'a'}, n)...), limit: 100}
		err := c.value(plainText)
		if (err == nil) != fine || !fine && (!errors.Is(err, errTooLarge) || !strings.Contains(err.Error(), "more than 100 bytes of JSON")) {
			t.Errorf("%d: %v", n, err)
		}
	}
	c := cborToJSON{data: append([]byte{0x98, 200}, bytes.Repeat([]byte{0xf6}, 200)...), limit: 100}
	if err := c.value(plainText); !errors.Is(err, errTooLarge) || len(c.out) > 110 {
		t.Errorf("%v after %d bytes", err, len(c.out))
	}
}

// FuzzCBORItem compares what this package takes for CBOR with what apimachinery does: the same
// bytes are well-formed, and what apimachinery decodes is decoded here, to the same value.
func FuzzCBORItem(f *testing.F) {
	for _, seed := range []string{
		"a26161016162820203", "5f42010243030405ff", "7f657374726561646d696e67ff", "bf61610161629f0203ffff", "d9d9f7a14161d643fbff00", "fb3ff199999999999a", "f97e00", "c11a514b67b0",
		"c249010000000000000000", "a1f7f7", "a2416101416102", "61ff", "3bffffffffffffffff", "9f018202039f0405ffff", "f818", "c074323031332d30332d32315432303a30343a30305a",
	} {
		f.Add(fromHex(f, seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		strict, err := transcode(data, false)
		_ = CBORToJSON(data)
		wellFormed := !errors.Is(err, errCBOR) && err != io.ErrUnexpectedEOF
		if _, theirs := direct.Diagnose(data); (theirs == nil) != wellFormed && !forAnotherReason(theirs) {
			t.Fatalf("%x: %v, apimachinery says %v", data, err, theirs)
		}
		if wellFormed {
			lenient, err := transcode(data, true)
			if err != nil || !json.Valid([]byte(lenient)) {
				t.Fatalf("%x, leniently: %s, %v", data, lenient, err)
			}
		}
		var want any
		if direct.Unmarshal(data, &want) != nil {
			return
		}
		// A null as a key is the empty name for apimachinery.
		if err != nil && strings.Contains(err.Error(), errCBORKey) {
			return
		}
		if err != nil {
			t.Fatalf("%x: %v, apimachinery decodes %v", data, err, want)
		}
		// As a server writes it that has this value.
		theirs := mustJSON(t, want)
		var a, b any
		if err := errors.Join(unmarshal([]byte(strict), &a), unmarshal(theirs, &b)); err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		if fmt.Sprint(a) != fmt.Sprint(b) && !bytes.Contains(data, []byte{0xc0}) && !bytes.Contains(data, []byte{0xc1}) {
			t.Fatalf("%x: %s, apimachinery decodes %s", data, strict, theirs)
		}
	})
}

// forAnotherReason reports whether err is not about the form: text that is no UTF-8, what a
// tag is before, or a limit.
func forAnotherReason(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "exceeded max") || strings.Contains(err.Error(), "invalid UTF-8") || strings.Contains(err.Error(), "tag number"))
}
