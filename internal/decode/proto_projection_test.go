package decode

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What a projection cannot be read by is an error of New that says where it is.
func TestProjectionErrors(t *testing.T) {
	type spec struct {
		NodeName string `json:"nodeName"`
	}
	type loop struct {
		Next *loop  `json:"next" protobuf:"bytes,1"`
		Name string `json:"name"`
	}
	for want, typ := range map[string]reflect.Type{
		"spec: no protobuf tag, which has the number of the API type's field": reflect.TypeFor[struct {
			identityMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
			Spec         spec `json:"spec"`
		}](),
		"metadata: no protobuf tag": reflect.TypeFor[struct {
			identityMeta `json:"metadata"`
			Spec         struct {
				NodeName string `json:"nodeName" protobuf:"bytes,10"`
			} `json:"spec"`
		}](),
		"name: number 1; an object's metadata has the number 1, and nothing else has": reflect.TypeFor[struct {
			identityMeta
			Spec struct{} `json:"spec" protobuf:"bytes,2"`
		}](),
		"metadata: number 4; an object's metadata": reflect.TypeFor[struct {
			identityMeta `json:"metadata" protobuf:"bytes,4"`
		}](),
		"identityMeta: no protobuf tag": reflect.TypeFor[struct {
			*identityMeta
			Spec struct{} `json:"spec" protobuf:"bytes,2"`
		}](),
		"metadata.name: another field has the name": reflect.TypeFor[struct {
			Metadata struct {
				identityMeta
				Name string `json:"name" protobuf:"bytes,2"`
			} `json:"metadata" protobuf:"bytes,1"`
		}](),
		"metadata.generateName: number 6 is that of resourceVersion": reflect.TypeFor[struct {
			Metadata struct {
				identityMeta
				GenerateName string `json:"generateName" protobuf:"bytes,6"`
			} `json:"metadata" protobuf:"bytes,1"`
		}](),
		"spec.nodeName: no protobuf tag": reflect.TypeFor[struct {
			Spec spec `json:"spec" protobuf:"bytes,2"`
		}](),
		"specs.nodeName: no protobuf tag": reflect.TypeFor[struct {
			Specs map[string]*spec `json:"specs" protobuf:"bytes,2"`
		}](),
		"loop.name: no protobuf tag": reflect.TypeFor[struct {
			Loop []loop `json:"loop" protobuf:"bytes,2"`
		}](),
		"X: no protobuf tag": reflect.TypeFor[struct {
			A string `protobuf:"bytes,2"`
			X string
		}](),
		"X: no protobuf tag, which": reflect.TypeFor[struct {
			A string `protobuf:"bytes,2"`
			X string `protobuf:"-"`
		}](),
		`a: protobuf tag "bytes": want one like "bytes,1,opt", with a number from 1 to 1000`: tagged[string]("bytes"),
		`a: protobuf tag "bytes,x"`:     tagged[string]("bytes,x"),
		`a: protobuf tag "bytes,0,opt"`: tagged[string]("bytes,0,opt"),
		`a: protobuf tag "bytes,1001"`:  tagged[string]("bytes,1001"),
		"b: number 2 is that of a": reflect.TypeFor[struct {
			A string `json:"a" protobuf:"bytes,2"`
			B string `json:"b" protobuf:"bytes,2"`
		}](),
		"a: the protobuf tag says varint, and a string is bytes":       tagged[string]("varint,2"),
		"a: the protobuf tag says varint, and a []string is bytes":     tagged[[]string]("varint,2"),
		"a: the protobuf tag says fixed64, and a *int32 is varint":     tagged[*int32]("fixed64,2"),
		"a: the protobuf tag says varint, and a v1.Time is bytes":      tagged[metav1.Time]("varint,2"),
		"a: time.Time decodes itself from JSON, and not from protobuf": tagged[time.Time]("bytes,2"),
		"a: decode.textual decodes itself from JSON":                   tagged[[]textual]("bytes,2"),
		"a: protobuf has no interface {}":                              tagged[map[string]any]("bytes,2"),
		"a: protobuf has no map[int32]string":                          tagged[map[int32]string]("bytes,2"),
		"a: protobuf has no [][]string":                                tagged[[][]string]("bytes,2"),
		"a: protobuf has no *[]string":                                 tagged[*[]string]("bytes,2"),
		"a: protobuf has no complex64":                                 tagged[complex64]("bytes,2"),
		"a: a protobuf tag, but JSON does not decode the field": reflect.TypeFor[struct {
			a string `protobuf:"bytes,2"`
		}](),
		"A: a protobuf tag, but JSON does not decode the field": reflect.TypeFor[struct {
			A string `json:"-" protobuf:"bytes,2"`
		}](),
		"template.spec: no protobuf tag": reflect.TypeFor[struct {
			// Its Unmarshal is that of the ObjectMeta.
			Template struct {
				metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1"`
				Spec              carp.CarpSpec `json:"spec"`
			} `json:"template" protobuf:"bytes,2"`
		}](),
		"template.metadata: no protobuf tag": reflect.TypeFor[struct {
			Template struct {
				metav1.ObjectMeta `json:"metadata"`
			} `json:"template" protobuf:"bytes,2"`
		}](),
		"metadata.extra: no protobuf tag": reflect.TypeFor[struct {
			Metadata struct {
				metav1.ObjectMeta
				Extra string `json:"extra"`
			} `json:"metadata" protobuf:"bytes,1"`
		}](),
		"it decodes itself from JSON, and not from protobuf": reflect.TypeFor[selfish](),
	} {
		_, err := New(reflect.PointerTo(typ), Options{})
		if whole := fmt.Sprintf("cannot decode protobuf into %v: %s", reflect.PointerTo(typ), want); err == nil || !strings.HasPrefix(err.Error(), whole) {
			t.Errorf("%v\nwant %s", err, whole)
		}
		// Where no protobuf comes the tags are of no use, and do no harm.
		if d, err := New(reflect.PointerTo(typ), Options{OnlyJSON: true}); err != nil || d.Protobuf() {
			t.Errorf("only JSON: %v", err)
		}
	}
	// What is left out needs no tag.
	d, err := New(reflect.TypeFor[*struct {
		Spec struct {
			NodeName string `json:"nodeName" protobuf:"bytes,10"`
			Rest     any    `json:"rest"`
		} `json:"spec" protobuf:"bytes,2"`
	}](), Options{Drop: []string{"spec.rest"}})
	if err != nil || !d.Protobuf() {
		t.Errorf("with a field dropped: %v", err)
	}
}

// A selfish type decodes itself from JSON.
type selfish struct {
	A string `json:"a" protobuf:"bytes,1"`
}

func (*selfish) UnmarshalJSON([]byte) error { return nil }

// A struct without tags of its own is read from JSON alone, whatever its fields' types have. The
// Unmarshal of its metadata is not its own.
func TestNoProjection(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[*struct {
			identityMeta `json:"metadata"`
			Spec         carp.CarpSpec `json:"spec"`
		}](): false,
		reflect.TypeFor[*struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Spec              carp.CarpSpec `json:"spec"`
		}](): false,
		reflect.TypeFor[*struct {
			metav1.ObjectMeta `json:"metadata"`
		}](): false,
		reflect.TypeFor[*struct {
			metav1.TypeMeta `json:",inline"`
			identityMeta    `json:"metadata"`
		}](): false,
		reflect.TypeFor[*struct {
			*metav1.ObjectMeta `json:"metadata"`
		}](): false,
		reflect.TypeFor[*struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1"`
		}](): true,
		// All of an API type, and its own Unmarshal.
		reflect.TypeFor[*struct {
			carp.Carp
			cached int
		}](): true,
		reflect.TypeFor[*struct {
			carp.Carp
			Extra string `json:"extra"`
		}](): false,
		reflect.TypeFor[*nest]():       true,
		reflect.TypeFor[*byValue]():    true,
		reflect.TypeFor[*trickPlace](): true,
		reflect.TypeFor[*carp.Carp]():  true,
	} {
		d, err := New(typ, Options{})
		if err != nil || d.Protobuf() != want {
			t.Errorf("%v: %v, %v; want %v", typ, d.Protobuf(), err, want)
		}
	}
	d := newDecoder[*struct{ carp.Carp }](t, Options{})
	if o := messageOf(d, mustMarshal(t, newCarp(1))); o.Err != nil || o.Value.(*struct{ carp.Carp }).Spec.NodeName != "node" {
		t.Errorf("all of a carp: %+v", o)
	}
}

// byValue has an Unmarshal that takes it as a value, so the one of the pointer is generated.
type byValue struct {
	metav1.ObjectMeta `json:"metadata"`
}

func (byValue) Unmarshal([]byte) error { return nil }

// A customResource has some protobuf tags, as many types of custom resources do.
type customResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec              struct {
		Size   int    `json:"size"`
		Parent string `json:"parent" protobuf:"varint,1,opt"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

func (c *customResource) DeepCopyObject() runtime.Object { panic("nobody copies it") }

// The tags of an API's type without an Unmarshal are not looked at: it is read from JSON.
func TestCustomResourceIsNoProjection(t *testing.T) {
	d := newDecoder[*customResource](t, Options{})
	if d.Protobuf() {
		t.Error("it is asked for in protobuf")
	}
	got, err := decodeOne(d, []byte(`{"metadata":{"name":"a"},"spec":{"size":3,"parent":"b"}}`))
	if c, ok := got.(*customResource); err != nil || !ok || c.Name != "a" || c.Spec.Size != 3 || c.Spec.Parent != "b" {
		t.Errorf("%+v, error %v", got, err)
	}
}
