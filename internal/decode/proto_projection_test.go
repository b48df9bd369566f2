package decode

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
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
		"spec: no protobuf tag, which has the number of the API type's field": structOf(
			typedField[identityMeta]("Meta", `json:"metadata" protobuf:"bytes,1"`), typedField[spec]("Spec", `json:"spec"`)),
		"metadata: no protobuf tag": structOf(
			typedField[identityMeta]("Meta", `json:"metadata"`), typedField[struct {
				NodeName string `json:"nodeName" protobuf:"bytes,10"`
			}]("Spec", `json:"spec"`)),
		"name: number 1; an object's metadata has the number 1, and nothing else has": reflect.TypeFor[struct {
			identityMeta
			Spec struct{} `json:"spec" protobuf:"bytes,2"`
		}](),
		"metadata: number 4; an object's metadata": structOf(
			typedField[identityMeta]("Meta", `json:"metadata" protobuf:"bytes,4"`)),
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
		"a.nodeName: no protobuf tag":        tagged[spec]("bytes,2"),
		"a.nodeName: no protobuf tag, which": tagged[map[string]*spec]("bytes,2"),
		"a.name: no protobuf tag":            tagged[[]loop]("bytes,2"),
		"X: no protobuf tag": structOf(typedField[string]("A", `protobuf:"bytes,2"`),
			typedField[string]("X", ``)),
		"X: no protobuf tag, which": structOf(
			typedField[string]("A", `protobuf:"bytes,2"`), typedField[string]("X", `protobuf:"-"`)),
		`a: protobuf tag "bytes": want one like "bytes,1,opt", with a number from 1 to 1000`: tagged[string]("bytes"),
		`a: protobuf tag "bytes,x"`:     tagged[string]("bytes,x"),
		`a: protobuf tag "bytes,0,opt"`: tagged[string]("bytes,0,opt"),
		`a: protobuf tag "bytes,1001"`:  tagged[string]("bytes,1001"),
		"b: number 2 is that of a": structOf(
			typedField[string]("A", `json:"a" protobuf:"bytes,2"`), typedField[string]("B", `json:"b" protobuf:"bytes,2"`)),
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
		"A: a protobuf tag, but JSON does not decode the field": structOf(
			typedField[string]("A", `json:"-" protobuf:"bytes,2"`)),
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
		if whole := fmt.Sprintf("cannot decode protobuf into %v: %s", reflect.PointerTo(typ), want); err == nil ||
			!strings.HasPrefix(err.Error(), whole) {
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
	if o := messageOf(d, mustMarshal(t, newCarp(1))); o.Err != nil ||
		o.Value.(*struct{ carp.Carp }).Spec.NodeName != "node" {
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

// identityMeta is as lw.Meta, which this package cannot import.
type identityMeta struct {
	Namespace       string    `json:"namespace,omitempty" protobuf:"bytes,3,opt,name=namespace"`
	Name            string    `json:"name" protobuf:"bytes,1,opt,name=name"`
	UID             types.UID `json:"uid,omitempty" protobuf:"bytes,5,opt,name=uid"`
	ResourceVersion string    `json:"resourceVersion,omitempty" protobuf:"bytes,6,opt,name=resourceVersion"`
}

// A carpPlace is what most projections are: an identity and a few strings.
type carpPlace struct {
	identityMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec         struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase  carp.CarpPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		CarpIP string         `json:"carpIP" protobuf:"bytes,6,opt,name=carpIP"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// carpParts has fields of every other sort: pointers, slices, maps, times, named strings, types of
// the API and of its own, and an ObjectMeta.
type carpParts struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec              *struct {
		RestartPolicy string            `json:"restartPolicy" protobuf:"bytes,3,opt,name=restartPolicy"`
		Grace         *int64            `json:"terminationGracePeriodSeconds" protobuf:"varint,4,opt,name=terminationGracePeriodSeconds"`
		Deadline      int64             `json:"activeDeadlineSeconds" protobuf:"varint,5"`
		NodeSelector  map[string]string `json:"nodeSelector" protobuf:"bytes,7,rep,name=nodeSelector"`
		HostPID       bool              `json:"hostPID" protobuf:"varint,12,opt,name=hostPID"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		StartTime  *metav1.Time         `json:"startTime" protobuf:"bytes,7,opt,name=startTime"`
		Conditions []carp.CarpCondition `json:"conditions" protobuf:"bytes,2,opt,name=conditions"`
		Infos      []*struct {
			A int64   `json:"a" protobuf:"bytes,1,name=a"`
			C *string `json:"c" protobuf:"bytes,4,opt,name=c"`
		} `json:"infos" protobuf:"bytes,8,rep,name=infos"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
	//lint:ignore U1000 The decoder must not see it.
	computed int
	Cached   string `json:"-"`
}

// carpNamed has an ObjectMeta in a field of its own, and strings alone beside it.
type carpNamed struct {
	Meta   metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Status struct {
		CarpIP    string      `json:"carpIP" protobuf:"bytes,6,opt,name=carpIP"`
		StartTime metav1.Time `json:"startTime" protobuf:"bytes,7,opt,name=startTime"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// carpLabels has a few fields of the metadata, some of which are in an embedded struct.
type carpLabels struct {
	someMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}

type someMeta struct {
	identityMeta
	Labels map[string]string       `json:"labels" protobuf:"bytes,11,rep,name=labels"`
	Owners []metav1.OwnerReference `json:"ownerReferences" protobuf:"bytes,13,rep,name=ownerReferences"`
}

// Whatever an object's history is, a projection has of each version what apimachinery decodes of
// that version's JSON, in every form, and no version is changed by those that come later.
func TestProjections(t *testing.T) {
	t.Run("place", func(t *testing.T) { checkProjection[carpPlace](t, func(p *carpPlace) string { return p.Name }) })
	t.Run("parts", func(t *testing.T) { checkProjection[carpParts](t, func(p *carpParts) string { return p.Name }) })
	t.Run("labels", func(t *testing.T) { checkProjection[carpLabels](t, func(p *carpLabels) string { return p.Name }) })
	t.Run("named", func(t *testing.T) { checkProjection[carpNamed](t, func(p *carpNamed) string { return p.Meta.Name }) })
}

func checkProjection[P any](t *testing.T, name func(*P) string) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Share: rapid.Bool().Draw(t, "share")}
		var drop func(*carp.Carp)
		if rapid.Bool().Draw(t, "drop") {
			opts.Drop = []string{"metadata.name"}
			if reflect.TypeFor[P]() == reflect.TypeFor[carpParts]() {
				opts.Drop = append(opts.Drop, "metadata.managedFields", "spec.nodeSelector", "status.conditions.message",
					"status.infos.c")
			}
			drop = func(c *carp.Carp) {
				c.Name = ""
				if len(opts.Drop) == 1 {
					return
				}
				c.ManagedFields, c.Spec.NodeSelector = nil, nil
				for i := range c.Status.Conditions {
					c.Status.Conditions[i].Message = ""
				}
				for i := range c.Status.Infos {
					c.Status.Infos[i].C = nil
				}
			}
		}
		d := newDecoder[*P](t, opts)
		if !d.Protobuf() {
			t.Fatalf("it is read from JSON alone")
		}
		store := map[string]*P{}
		if rapid.Bool().Draw(t, "reuse") {
			d.ReuseFrom(func(_, name string) any {
				if p, ok := store[name]; ok {
					return p
				}
				return nil
			})
		}
		next := drawCarps(t)
		keep := func(v any) { p := v.(*P); store[name(p)] = p }
		checkVersions(t, d, 8, keep, func() (string, []byte, any) {
			c, form := next(), rapid.SampledFrom(slices.Sorted(maps.Keys(carpForms))).Draw(t, "form")
			data := carpForms[form](t, c)
			full := &carp.Carp{}
			if form == "protobuf" && rapid.IntRange(0, 3).Draw(t, "twice") == 0 {
				// What comes twice is merged.
				other := c.DeepCopy()
				changeCarp(t, other)
				data = joined(form, data, mustMarshal(t, other))
				ok(t, full.Unmarshal(data))
			} else {
				full = c.DeepCopy()
			}
			if drop != nil {
				drop(full)
			}
			full.TypeMeta = metav1.TypeMeta{}
			want := new(P)
			ok(t, unmarshal(mustJSON(t, full), want))
			return form, data, want
		})
	})
}

// A projection over protobuf costs what it keeps: the object, and its strings.
func TestProjectionIsSmall(t *testing.T) {
	frames := carpFrames(t, "MODIFIED", 200)
	var kept []*carpPlace
	d := newDecoder[*carpPlace](t, Options{})
	d.ReuseFrom(func(string, string) any { return nil })
	if d.root.layout != nil {
		t.Error("it has notes")
	}
	read := func() {
		kept = kept[:0]
		if err := d.Watch(bytes.NewReader(frames), Protobuf, func(e Event) error {
			kept = append(kept, e.Object.Value.(*carpPlace))
			return e.Object.Err
		}); err != nil || len(kept) != 200 {
			t.Fatalf("%d events, %v", len(kept), err)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pool of strings
	read()
	// The object, its name and its version; the strings that all of them have are in the pool. The
	// rest is that of the 200 events together.
	if allocs := testing.AllocsPerRun(5, read) / 200; allocs > 3.1 {
		t.Errorf("%.2f allocations an event, want 3", allocs)
	}
	// Beside an ObjectMeta, strings are no part. What is dropped is none either.
	for typ, want := range map[reflect.Type]string{
		reflect.TypeFor[*carpNamed]():                              "labels annotations ownerReferences finalizers",
		reflect.TypeFor[*carpParts]():                              "labels annotations ownerReferences finalizers status",
		reflect.TypeFor[*carp.Carp]():                              "labels annotations ownerReferences finalizers spec status",
		reflect.TypeFor[*struct{ metav1.PartialObjectMetadata }](): "",
	} {
		if got := partsOf(decoderOf(t, typ, Options{Drop: []string{"metadata.managedFields"}}).root.layout); got != want {
			t.Errorf("%v: parts %q, want %q", typ, got, want)
		}
	}
}

// A trickPlace is a carpPlace with an Unmarshal that is never called.
type trickPlace carpPlace

func (*trickPlace) Unmarshal([]byte) error { panic("the tags are there to be compiled") }

// The fields of a struct that is inlined have other types than those of the struct around it that
// stand in the same places. So they are no leaves of templates.
func TestTemplateOfInlinedStruct(t *testing.T) {
	type Inlined struct {
		Name   string            `json:"name" protobuf:"bytes,1,opt,name=name"`
		Labels map[string]string `json:"labels" protobuf:"bytes,2,rep,name=labels"`
	}
	type place struct {
		metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
		Spec              struct {
			Inlined
			Node string `json:"node" protobuf:"bytes,3,opt,name=node"`
		} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	}
	d := newTemplater[*place](t, Options{})
	var all, wants []*place
	for i := range 8 {
		key, value, node := fmt.Sprintf("key-%d", i%3), fmt.Sprint(i%2), strings.Repeat("n", 100)
		spec := message{}.bytes(1, "a").bytes(2, string(message{}.bytes(1, key).bytes(2, value))).bytes(3, node)
		o := messageOf(d, append(fieldOfBytes(1, mustMarshal(t, &metav1.ObjectMeta{Name: "a"})), fieldOfBytes(2, spec)...))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		want := &place{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		want.Spec.Inlined, want.Spec.Node = Inlined{"a", map[string]string{key: value}}, node
		all, wants = append(all, o.Value.(*place)), append(wants, want)
		checkDiff(t, fmt.Sprintf("%d objects", i+1), wants, all)
	}
}

// Numbers that are not packed are one leaf, however many they are: a template fits more and fewer.
func TestTemplateOfNumbers(t *testing.T) {
	d := newTemplater[*roomy](t, Options{})
	ts := templatesFor(t, d, "spec")
	for i, n := range []int{3, 5, 2, 3, 1, 9} {
		var spec message
		var want []int64
		for j := range n {
			spec, want = spec.varint(1, uint64(j)), append(want, int64(j))
		}
		spec = spec.bytes(3, strings.Repeat("a long name ", 9))
		o := messageOf(d, append(fieldOfBytes(1, mustMarshal(t, &metav1.ObjectMeta{Name: "a"})), fieldOfBytes(2, spec)...))
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		checkDiff(t, fmt.Sprintf("%d numbers", n), want, o.Value.(*roomy).Spec.Numbers)
		if len(ts.all) != 1 || ts.credit != i {
			t.Errorf("%d templates, %d objects saved", len(ts.all), ts.credit)
		}
	}
}
