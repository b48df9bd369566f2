package decode

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// A time in the form that servers write is decoded as time.Parse does it.
func TestTimes(t *testing.T) {
	check := func(s string) {
		want, err := time.Parse(time.RFC3339, s)
		if got, ok := utc([]byte(s)); ok && (err != nil || !reflect.DeepEqual(want.Local(), got)) {
			t.Fatalf("%s: got %v, want %v, error %v", s, got, want, err)
		} else if !ok && err == nil && len(s) == 20 && strings.Count(s, "-") == 2 {
			t.Fatalf("%s is left to time.Parse", s)
		}
	}
	for _, year := range []int{0, 1, 1900, 1969, 1970, 2000, 2023, 2024, 2100, 9999} {
		for month := range 14 {
			for day := range 33 {
				check(fmt.Sprintf("%04d-%02d-%02dT03:04:05Z", year, month, day))
			}
		}
	}
	for n := range 100 {
		check(fmt.Sprintf("2024-02-29T%02d:00:00Z", n))
		check(fmt.Sprintf("2024-02-29T00:%02d:00Z", n))
		check(fmt.Sprintf("2024-02-29T00:00:%02dZ", n))
	}
	rapid.Check(t, func(t *rapid.T) {
		b := []byte("2024-02-29T23:59:58Z")
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		check(string(b))
	})
}

// Short numbers are decoded without strconv, and to the same values.
func TestShortNumbers(t *testing.T) {
	d := newDecoder[*sink](t, Options{})
	for _, n := range []string{"0", "00", "01", "-0", "-1", "7", "10", "1234567", "12345678", "123456789", "2147483647", "2147483648", "1.0", "1e2", "1 ", " 1", "1\n", "1x", "", "-"} {
		for _, spec := range []string{`{"i32":%s}`, `{"i64P":%s}`, `{"i8":%s,"str":"x"}`, `{"i32":%s,"i64P":%[1]s}`, `{"deep":[[%s],[1,%[1]s,2]]}`, `{"pp":%s}`, `{"intStr":%s}`, `{"i32":%s`} {
			checkSame(t, d, []byte(`{"spec":`+fmt.Sprintf(spec, n)+`}`))
		}
	}
}

func TestIntOrString(t *testing.T) {
	type object struct {
		V intstr.IntOrString  `json:"v"`
		P *intstr.IntOrString `json:"p"`
	}
	d := newDecoder[*object](t, Options{})
	for _, v := range []string{`1`, `"http"`, `""`, `null`, `-0`, `2147483648`, `1.5`, `1e2`, `true`, `{}`, `"a\u00e9\ud800"`} {
		checkSameAs[object](t, d, []byte(`{"v":`+v+`,"p":`+v+`}`))
	}
}
