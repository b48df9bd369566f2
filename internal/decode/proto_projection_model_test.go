package decode

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

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
				opts.Drop = append(opts.Drop, "metadata.managedFields", "spec.nodeSelector", "status.conditions.message", "status.infos.c")
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
