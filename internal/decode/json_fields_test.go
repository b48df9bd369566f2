package decode

//lint:file-ignore SA5008 Odd tags are what the decoder is tested with.

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fieldRules has fields among which encoding/json chooses because they have one name, or which it
// leaves out.
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
	//lint:ignore U1000 The decoder must not see it.
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
		Last
		Deep     string
		OnlyLeft string
	}
	Last   struct{ InLast string }
	Twice1 struct{ Shared }
	Twice2 struct{ Shared }
	Shared struct{ InShared string }
	Num    int
	Iface  interface{ F() }
)

func TestFieldRules(t *testing.T) {
	d := newDecoder[*fieldRules](t, Options{})
	for _, name := range []string{
		"Same", "OnlyLeft", "OnlyRight", "Chosen", "Tag", "Deep", "InLast", "Last", "InShared", "Shared", "Left", "Right", "deeper", "Tagged", "tagged", "Untaggd", "Bad", "bad\\\"name", "Good", "good name/$",
		"Hidden", "hidden", "-", "Quoted", "quoted", "quotedP", "quotedM", "Num", "Iface",
	} {
		for _, value := range []string{`"1"`, `1`, `null`, `{"a":1}`, `{"InShared":"x","Same":"y"}`} {
			checkSameAs[fieldRules](t, d, []byte(`{"`+name+`":`+value+`,"Untaggd":"behind"}`))
		}
	}
}

// quotedAll has a field of each type for which the option "string" holds, and some for which it
// does not.
type quotedAll struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`

	B    bool     `json:"b,string"`
	I    int      `json:"i,string"`
	I8   int8     `json:"i8,string"`
	I16  int16    `json:"i16,string"`
	I32  int32    `json:"i32,string"`
	I64  int64    `json:"i64,string"`
	U    uint     `json:"u,string"`
	U8   uint8    `json:"u8,string"`
	U16  uint16   `json:"u16,string"`
	U32  uint32   `json:"u32,string"`
	U64  uint64   `json:"u64,string"`
	UP   uintptr  `json:"up,string"`
	F32  float32  `json:"f32,string"`
	F64  float64  `json:"f64,string"`
	S    string   `json:"s,string"`
	P    *int32   `json:"p,string"`
	PP   **int32  `json:"pp,string"`
	List []int32  `json:"list,string"`
	Any  any      `json:"any,string"`
	St   struct{} `json:"st,string"`
}

// outer has fields that are promoted from structs behind pointers.
type outer struct {
	metav1.TypeMeta
	metav1.ObjectMeta `json:"metadata"`
	*Middle
	*hidden
}

type Middle struct {
	*Reference `json:",inline"`
	Between    int `json:"between"`
}

type hidden struct {
	Secret string `json:"secret"`
}

func TestQuotedFields(t *testing.T) {
	for _, name := range []string{"b", "i", "i8", "i16", "i32", "i64", "u", "u8", "u16", "u32", "u64", "f32", "f64", "s", "p", "list", "any", "st"} {
		for _, value := range []string{`"1"`, `1`, `"true"`, `true`, `"x"`, `"\"x\""`, `null`, `"null"`, `""`, `"300"`, `"-1"`, `[1]`, `"[1]"`, `{}`} {
			checkSameAs[quotedAll](t, newDecoder[*quotedAll](t, Options{}), []byte(`{"metadata":{"name":"a"},"`+name+`":`+value+`}`))
		}
	}
}

func TestEmbeddedPointers(t *testing.T) {
	for _, members := range []string{
		`"between":1`, `"refKind":"k"`, `"refName":"n","between":2,"refUID":3`, `"refKind":null`, `"between":null`, `"secret":"s"`, `"secret":null`, `"other":1`, `"between":1,"secret":"s"`,
	} {
		checkSameAs[outer](t, newDecoder[*outer](t, Options{}), []byte(`{"metadata":{"name":"a"},`+members+`}`))
	}
}
