package lwtest_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	carp "k8s.io/apimachinery/pkg/apis/testapigroup/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// A carpPlace agrees with a Carp in all that it has.
type carpPlace struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    *struct {
		NodeName     string            `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
		Grace        int64             `json:"terminationGracePeriodSeconds" protobuf:"varint,4,opt,name=terminationGracePeriodSeconds"`
		NodeSelector map[string]string `json:"nodeSelector" protobuf:"bytes,7,rep,name=nodeSelector"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase      string       `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		StartTime  *metav1.Time `json:"startTime" protobuf:"bytes,7,opt,name=startTime"`
		Conditions []struct {
			Type          carp.CarpConditionType `json:"type" protobuf:"bytes,1,opt,name=type"`
			LastProbeTime metav1.Time            `json:"lastProbeTime" protobuf:"bytes,3,opt,name=lastProbeTime"`
		} `json:"conditions" protobuf:"bytes,2,rep,name=conditions"`
		Infos []carp.CarpInfo `json:"infos" protobuf:"bytes,8,rep,name=infos"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A labelled has more of the metadata than a Meta.
type labelled struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		lw.Meta
		Labels map[string]string       `json:"labels" protobuf:"bytes,11,rep,name=labels"`
		Owners []metav1.OwnerReference `json:"ownerReferences" protobuf:"bytes,13,rep,name=ownerReferences"`
	} `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
}

// A jsonPlace has no numbers.
type jsonPlace struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// An outer and an inner are an API type with an embedded struct that is a message of its own.
type outer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Sources           []struct {
		Name  string `json:"name" protobuf:"bytes,1,opt,name=name"`
		Inner `json:",inline" protobuf:"bytes,2,opt,name=inner"`
	} `json:"sources" protobuf:"bytes,2,rep,name=sources"`
}

type Inner struct {
	Path string    `json:"path" protobuf:"bytes,7,opt,name=path"`
	At   time.Time `json:"at" protobuf:"bytes,8,opt,name=at"`
}

func TestProjection(t *testing.T) {
	lwtest.Projection[*carpPlace, *carp.Carp](t)
	lwtest.Projection[carpPlace, carp.Carp](t)
	lwtest.Projection[*labelled, *carp.Carp](t)
	lwtest.Projection[*labelled, *metav1.PartialObjectMetadata](t)
	lwtest.Projection[*jsonPlace, *carp.Carp](t)
	lwtest.Projection[*metav1.PartialObjectMetadata, *carp.Carp](t)
	lwtest.Projection[lw.Meta, metav1.ObjectMeta](t)
	lwtest.Projection[*struct {
		lw.Meta `json:"metadata" protobuf:"bytes,1"`
		Sources []struct {
			innerPath `protobuf:"bytes,2"`
		} `json:"sources" protobuf:"bytes,2"`
	}, *outer](t)
}

type innerPath struct {
	Path string `json:"path" protobuf:"bytes,7"`
}

// Each difference is told with its path, and nothing else is.
func TestProjectionDiffers(t *testing.T) {
	type twice struct {
		Name string `json:"name" protobuf:"bytes,10"`
	}
	for name, tt := range map[string]struct {
		check func(testing.TB)
		want  []string
	}{
		"numbers, names and types": {lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
			Spec    struct {
				NodeName     string         `json:"nodeName" protobuf:"bytes,11"`
				Host         string         `json:"host" protobuf:"bytes,16"`
				Nothing      string         `json:"nothing" protobuf:"bytes,500"`
				HostPID      string         `json:"hostPID" protobuf:"bytes,12"`
				Deadline     int32          `json:"activeDeadlineSeconds" protobuf:"varint,5"`
				NodeSelector map[string]int `json:"nodeSelector" protobuf:"bytes,7"`
				Subdomain    []string       `json:"subdomain" protobuf:"bytes,17"`
			} `json:"spec" protobuf:"bytes,2"`
			Status struct {
				StartTime  time.Time `json:"startTime" protobuf:"bytes,7"`
				Conditions []struct {
					Reason string `json:"reason" protobuf:"bytes,6"`
				} `json:"conditions" protobuf:"bytes,2"`
				Message string `json:"message"`
			} `json:"status" protobuf:"bytes,3"`
		}, *carp.Carp], []string{
			"spec.nodeName: number 11, the API's is 10",
			"spec.host: the API has no such field, and calls number 16 hostname",
			"spec.nothing: the API has no such field",
			"spec.hostPID: the type is string, the API's is bool",
			"spec.activeDeadlineSeconds: the type is int32, the API's is int64",
			"spec.nodeSelector: the type is int, the API's is string",
			"spec.subdomain: the type is []string, the API's is string",
			"status.startTime: the type is time.Time, the API's is v1.Time",
			"status.conditions.reason: number 6, the API's is 5",
			"status.message: no number, the API's is 3",
		}},
		"JSON alone": {lwtest.Projection[*struct {
			jsonPlace
			Status struct {
				Phase int `json:"phase"`
				IP    int `json:"ip"`
			} `json:"status"`
		}, *carp.Carp], []string{"status.phase: the type is int, the API's is v1.CarpPhase",
			"status.ip: the API has no such field"}},
		"a struct that is embedded": {lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
			Sources []struct {
				Path string `json:"path" protobuf:"bytes,7"`
			} `json:"sources" protobuf:"bytes,2"`
		}, *outer], []string{"sources.path: number 7, the API's is 2.7, the last of which is in an embedded struct"}},
		"what lw refuses": {lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
			Status  struct {
				Phase string `json:"phase" protobuf:"varint,1"`
			} `json:"status" protobuf:"bytes,3"`
		}, *carp.Carp], []string{"status.phase: the protobuf tag says varint, and a string is bytes"}},
		"a type of its own": {lwtest.Projection[*twice, *struct {
			Name []byte `json:"name" protobuf:"bytes,10"`
		}], []string{"name: the type is string, the API's is []uint8"}},
		"itself": {lwtest.Projection[*carp.Carp, *carp.Carp], []string{"is compared with itself"}},
		"a pointer where the API has none": {lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
			Status  struct {
				Conditions []struct {
					Reason *string `json:"reason" protobuf:"bytes,5"`
				} `json:"conditions" protobuf:"bytes,2"`
			} `json:"status" protobuf:"bytes,3"`
		}, *carp.Carp], []string{"with an empty value in every field: JSON and protobuf differ (-JSON +protobuf)"}},
		"bytes that are otherwise": {lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
		}, *liar], []string{"in every field: JSON and protobuf differ"}},
		"bytes without a time": {lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
			At      metav1.Time `json:"at" protobuf:"bytes,2"`
		}, *timeless], []string{"with a value in every field: JSON and protobuf differ"}},
	} {
		tb := &fakeTB{TB: t}
		tb.run(func() { tt.check(tb) })
		got := strings.Split(strings.TrimSpace(tb.out.String()), "lwtest: ")[1:]
		if len(got) != len(tt.want) || !tb.failed {
			t.Errorf("%s: %d differences, want %d:\n%s", name, len(got), len(tt.want), cmp.Diff(tt.want, got))
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: %q, want %q", name, got[i], want)
			}
		}
	}
}

// A liar writes something else than its tags say: nothing.
type liar struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1"`
}

func (*liar) Marshal() ([]byte, error) { return nil, nil }

// A timeless writes its metadata alone.
type timeless struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1"`
	At                metav1.Time `json:"at" protobuf:"bytes,2"`
}

func (t *timeless) Marshal() ([]byte, error) {
	return (&metav1.PartialObjectMetadata{ObjectMeta: t.ObjectMeta}).Marshal()
}

// A Filled has a field of each kind that a filler knows.
type Filled struct {
	Text     string             `json:"text" protobuf:"bytes,2"`
	Yes      bool               `json:"yes" protobuf:"varint,3"`
	Small    int32              `json:"small" protobuf:"varint,4"`
	Long     int64              `json:"long" protobuf:"varint,5"`
	Share    float64            `json:"share" protobuf:"fixed64,6"`
	Pointer  *string            `json:"pointer" protobuf:"bytes,7"`
	Bytes    []byte             `json:"bytes" protobuf:"bytes,8"`
	Texts    []string           `json:"texts" protobuf:"bytes,9"`
	Map      map[string]string  `json:"map" protobuf:"bytes,10"`
	At       metav1.Time        `json:"at" protobuf:"bytes,11"`
	Micro    metav1.MicroTime   `json:"micro" protobuf:"bytes,12"`
	Lasts    metav1.Duration    `json:"lasts" protobuf:"bytes,13"`
	Quantity resource.Quantity  `json:"quantity" protobuf:"bytes,14"`
	Port     intstr.IntOrString `json:"port" protobuf:"bytes,15"`
	Part     struct {
		Deep string `json:"deep" protobuf:"bytes,1"`
	} `json:"part" protobuf:"bytes,16"`
}

// A silent has all of that, and writes nothing.
type silent struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1"`
	Filled
}

func (*silent) Marshal() ([]byte, error) { return nil, nil }

// Each field is compared with a value in it, and each that can be empty and there as well.
func TestProjectionFills(t *testing.T) {
	tb := &fakeTB{TB: t}
	tb.run(func() {
		lwtest.Projection[*struct {
			lw.Meta `json:"metadata" protobuf:"bytes,1"`
			Filled
		}, *silent](tb)
	})
	value, empty, _ := strings.Cut(tb.out.String(), "with an empty value in every field: JSON and protobuf differ")
	differ := func(text string) (names []string) {
		for _, m := range regexp.MustCompile(`(?m)^-\W+(\w+):`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return names
	}
	rig.Same(t, "what has a value", []string{"Namespace", "Name", "UID", "ResourceVersion", "Text", "Yes", "Small", "Long",
		"Share", "Pointer", "Bytes", "Texts", "Map", "At", "Micro", "Lasts", "Quantity", "IntVal", "Part"}, differ(value))
	rig.Same(t, "what is empty and there", []string{"Pointer", "Texts", "Map"}, differ(empty))
}

func ExamplePrune() {
	obj := &carp.Carp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "koi", Labels: map[string]string{"a": "b"}, Generation: 3},
		Spec:       carp.CarpSpec{NodeName: "north", Hostname: "h"},
	}
	lwtest.Prune(obj, lw.Fields{"spec.nodeName"})
	fmt.Printf("%s %v %d %s %q\n", obj.Name, obj.Labels, obj.Generation, obj.Spec.NodeName, obj.Spec.Hostname)
	// Output: koi map[] 0 north ""
}
