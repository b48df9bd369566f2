package decode

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fieldRules are types in which encoding/json chooses among fields of one name, or leaves them out.
type fieldRules struct {
	Left
	*Right
	deeper
	Twice1
	Twice2
	Tagged  string `json:"tagged"`
	Untaggd string
	Bad     string `json:"bad\"name"`
	Good    string `json:"good name/$"`
	Hidden  string `json:"-"`
	hidden  string
	Quoted  **int          `json:"quoted,string"`
	QuotedP *int           `json:"quotedP,string,omitempty"`
	QuotedM map[string]int `json:"quotedM,string"`
	Num
	Iface
}

type (
	Left struct {
		Same, OnlyLeft string
		Tag            string `json:"Chosen"`
	}
	Right struct {
		Same, OnlyRight string
		Chosen          string
	}
	deeper struct {
		Left
		Deep     string
		OnlyLeft string
	}
	Twice1 struct{ Shared }
	Twice2 struct{ Shared }
	Shared struct{ InShared string }
	Num    int
	Iface  interface{ F() }
)

func TestFieldRules(t *testing.T) {
	d := newDecoder[*fieldRules](t, Options{})
	for _, name := range []string{
		"Same", "OnlyLeft", "OnlyRight", "Chosen", "Tag", "Deep", "InShared", "Shared", "Left", "Right", "deeper", "Tagged", "tagged", "Untaggd", "Bad", "bad\\\"name", "Good", "good name/$",
		"Hidden", "hidden", "-", "Quoted", "quoted", "quotedP", "quotedM", "Num", "Iface",
	} {
		for _, value := range []string{`"1"`, `1`, `null`, `{"a":1}`, `{"InShared":"x","Same":"y"}`} {
			data := []byte(`{"` + name + `":` + value + `,"Untaggd":"behind"}`)
			want := &fieldRules{}
			wantErr := unmarshal(data, want)
			got, err := decodeOne(d, data)
			if (err == nil) != (wantErr == nil) {
				t.Errorf("%s: error %v, want %v", data, err, wantErr)
			} else if err == nil && !reflect.DeepEqual(want, got) {
				t.Errorf("%s (-want +got):\n%s", data, cmp.Diff(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got)))
			}
		}
	}
}
