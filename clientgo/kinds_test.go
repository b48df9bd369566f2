package clientgo_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/internal/apiserver"
	"github.com/go-lw/lw/internal/decode"
	"github.com/go-lw/lw/internal/decode/prune"
	"github.com/go-lw/lw/internal/decode/standard"
	"github.com/go-lw/lw/internal/verify/leak"
	"github.com/go-lw/lw/internal/verify/rig"
	"github.com/go-lw/lw/lwtest"
)

// Every kind of k8s.io/api, filled with random values, is decoded as apimachinery's decoders decode
// it, from JSON and from protobuf, with and without shared parts, with and without what the version
// before has, with a mask that keeps each of its fields, and with a random one.
func TestKinds(t *testing.T) {
	leak.Collect(t, 5*time.Millisecond)
	const objects, seed = 8, 1
	kinds := 0
	for gvk, typ := range sortedKinds() {
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds++
		// Of each kind the objects are the same in each run, whether the other kinds run or not.
		fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed),
			serializer.NewCodecFactory(scheme.Scheme))
		rng, pick := rand.New(rand.NewSource(seed)), randv2.New(randv2.NewPCG(seed, 0))
		t.Run(strings.ReplaceAll(gvk.String(), ", Kind=", "/"), func(t *testing.T) {
			// Only what is compiled can leave out fields. DeleteOptions, in an Eviction, have a string whose
			// tag says varint.
			if d, err := decode.New(reflect.PointerTo(typ),
				decode.Options{Drop: []string{"metadata.managedFields"}}); err != nil || !d.Protobuf() && gvk.Kind != "Eviction" {
				t.Errorf("its tags are not compiled: %v", err)
			}
			for n := range 6 {
				opts := decode.Options{Share: n%2 == 1}
				// What keeps each field by its own path keeps everything. An Eviction's DeleteOptions, see
				// above, would not be read from protobuf.
				switch {
				case gvk.Kind == "Eviction":
				case n == 4:
					opts.Only = prune.Leaves(typ)
				case n == 5:
					opts.Only = prune.Random(pick, typ, "a", "app", "cpu", "memory", "example.com/a")
				}
				d := rig.Must[*decode.Decoder](t)(decode.New(reflect.PointerTo(typ), opts))
				r := reader{Decoder: d, only: opts.Only}
				if n >= 2 {
					// Whatever the names are: a version may differ from the one before in all parts.
					d.ReuseFrom(func(string, string) any { return r.last })
				}
				if !d.Protobuf() {
					if n == 5 {
						continue // such as a key of a map of ExtraValues: it is read from JSON
					}
					t.Fatal("not read from protobuf")
				}
				var before runtime.Object
				for range objects {
					obj := reflect.New(typ).Interface().(runtime.Object)
					fill.Fill(obj)
					obj.GetObjectKind().SetGroupVersionKind(gvk)
					r.fromJSON(t, obj)
					r.fromProtobuf(t, obj)
					// All that two objects have, one behind the other, in one: the second is merged into the
					// first.
					if before != nil {
						r.fromJSON(t, before, obj)
						r.fromProtobuf(t, before, obj)
						// And an object that has some parts of each.
						r.fromJSON(t, mixed(rng, before, obj))
						r.fromProtobuf(t, mixed(rng, before, obj))
					}
					before = obj
				}
			}
		})
	}
	if kinds < 100 {
		t.Errorf("only %d kinds", kinds)
	}
}

// sortedKinds yields the kinds of k8s.io/api and their types, in the order of their names.
func sortedKinds() iter.Seq2[schema.GroupVersionKind, reflect.Type] {
	return func(yield func(schema.GroupVersionKind, reflect.Type) bool) {
		types := scheme.Scheme.AllKnownTypes()
		byName := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
		for _, gvk := range slices.SortedFunc(maps.Keys(types), byName) {
			if !yield(gvk, types[gvk]) {
				return
			}
		}
	}
}

// mixed returns an object that has each field of a or of b, and each field of the metadata.
func mixed(rng *rand.Rand, a, b runtime.Object) runtime.Object {
	out := a.DeepCopyObject()
	to, from := reflect.ValueOf(out).Elem(), reflect.ValueOf(b.DeepCopyObject()).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).Name == "ObjectMeta" {
			for j := range to.Field(i).NumField() {
				if rng.Intn(2) == 0 {
					to.Field(i).Field(j).Set(from.Field(i).Field(j))
				}
			}
		} else if rng.Intn(2) == 0 {
			to.Field(i).Set(from.Field(i))
		}
	}
	return out
}

// The decoders of apimachinery make of what a server sends what they make alone, in the same
// streams.
func TestKindsByApimachinery(t *testing.T) {
	const seed = 2
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed),
		serializer.NewCodecFactory(scheme.Scheme))
	pick := randv2.New(randv2.NewPCG(seed, 0))
	for gvk, typ := range sortedKinds() {
		if _, ok := reflect.New(typ).Interface().(metav1.Object); !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		for n := range 3 {
			opts := decode.Options{Share: n == 1}
			if n == 2 {
				opts.Only = prune.Random(pick, typ, "a", "app", "cpu", "memory", "example.com/a")
			}
			d := rig.Must[standard.Decoder](t)(standard.New(reflect.PointerTo(typ), opts, true))
			if _, own := d.(*decode.Decoder); own || !d.Protobuf() {
				t.Fatalf("%v: a %T reads it", gvk, d)
			}
			r := reader{Decoder: d, only: opts.Only}
			for range 2 {
				obj := reflect.New(typ).Interface().(runtime.Object)
				fill.Fill(obj)
				obj.GetObjectKind().SetGroupVersionKind(gvk)
				r.fromJSON(t, obj)
				r.fromProtobuf(t, obj)
			}
		}
	}
}

// A reader is a decoder, the fields that it keeps if not all, and the last object that it has
// decoded.
type reader struct {
	standard.Decoder
	only []string
	last any
}

func (r *reader) fromJSON(t *testing.T, objs ...runtime.Object) {
	t.Helper()
	var data []byte
	for i, obj := range objs {
		one := rig.Must[[]byte](t)(json.Marshal(obj))
		if i > 0 {
			data[len(data)-1], one = ',', one[1:]
		}
		data = append(data, one...)
	}
	want := reflect.New(reflect.TypeOf(objs[0]).Elem()).Interface().(runtime.Object)
	wantErr := utiljson.Unmarshal(data, want)
	// The items of a list lack it, so those of a watch do as well.
	want.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	r.same(t, []byte(fmt.Sprintf(`{"type":"ADDED","object":%s}`+"\n", data)), decode.JSON, want, wantErr)
}

func (r *reader) fromProtobuf(t *testing.T, objs ...runtime.Object) {
	t.Helper()
	var envelope runtime.Unknown
	for _, obj := range objs {
		var b bytes.Buffer
		rig.OK(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b))
		raw := bytes.Clone(envelope.Raw)             // Unmarshal writes into the memory that Raw has
		rig.OK(t, envelope.Unmarshal(b.Bytes()[4:])) // after the magic bytes
		envelope.Raw = append(raw, envelope.Raw...)
	}
	want := reflect.New(reflect.TypeOf(objs[0]).Elem()).Interface()
	wantErr := want.(message).Unmarshal(envelope.Raw)
	r.same(t, protoFrame(t, &envelope), decode.Protobuf, want, wantErr)
}

// protoFrame returns the frame of a watch's event of an object in protobuf.
func protoFrame(t *testing.T, object *runtime.Unknown) []byte {
	t.Helper()
	whole := rig.Must[[]byte](t)(object.Marshal())
	event := rig.Must[[]byte](t)((&metav1.WatchEvent{Type: "ADDED",
		Object: runtime.RawExtension{Raw: append([]byte("k8s\x00"), whole...)}}).Marshal())
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

// same reads one frame several times, since the decoder learns from what it has seen.
func (r *reader) same(t *testing.T, frame []byte, encoding decode.Encoding, want any, wantErr error) {
	t.Helper()
	if r.only != nil {
		if wantErr != nil {
			return // it may be in what is left out
		}
		prune.Object(want, nil, r.only)
	}
	for range 3 {
		events := 0
		err := r.Watch(bytes.NewReader(frame), encoding, func(ev decode.Event) error {
			events++
			if (ev.Object.Err != nil) != (wantErr != nil) {
				t.Errorf("error %v, want %v", ev.Object.Err, wantErr)
			} else if wantErr == nil && !reflect.DeepEqual(want, ev.Object.Value) {
				t.Errorf("another object (-want +got):\n%s", cmp.Diff(want, ev.Object.Value))
			}
			r.last = ev.Object.Value
			return nil
		})
		if err != nil || events != 1 {
			t.Errorf("%d events, %v", events, err)
		}
	}
}

// An entry of a map with two values is decoded as generated code does it, for every sort of value.
func TestMapEntriesOfTwoValues(t *testing.T) {
	field := func(num byte, parts ...[]byte) []byte {
		all := bytes.Join(parts, nil)
		return append(binary.AppendUvarint([]byte{num<<3 | 2}, uint64(len(all))), all...)
	}
	marshal := func(m interface{ Marshal() ([]byte, error) }) []byte { return rig.Must[[]byte](t)(m.Marshal()) }
	text, number := "text", int64(7)
	one, two := resource.MustParse("1"), resource.MustParse("2")
	now := metav1.Now()
	for _, tt := range []struct {
		obj    runtime.Object
		path   []byte // the numbers of the fields that lead to the map
		values [][]byte
	}{
		{&corev1.ConfigMap{}, []byte{3}, [][]byte{[]byte("a"), nil}},
		{&corev1.ConfigMap{}, []byte{2}, [][]byte{[]byte("a"), nil}},
		{&corev1.Node{}, []byte{3, 1}, [][]byte{marshal(&one), nil, marshal(&two), nil}},
		{&policyv1.PodDisruptionBudget{}, []byte{3, 2}, [][]byte{marshal(&now), nil}},
		{&certificatesv1.CertificateSigningRequest{}, []byte{1, 6}, [][]byte{marshal(certificatesv1.ExtraValue{"a", "b"}),
			marshal(certificatesv1.ExtraValue{"c"})}},
		{&resourcev1.ResourceSlice{}, []byte{2, 6, 2}, [][]byte{marshal(&resourcev1.DeviceAttribute{StringValue: &text}),
			marshal(&resourcev1.DeviceAttribute{IntValue: &number})}},
	} {
		entry := field(1, []byte("the key, which is long enough to be shared"))
		for _, v := range tt.values {
			entry = append(entry, field(2, v)...)
		}
		raw := entry
		for _, num := range slices.Backward(tt.path) {
			raw = field(num, raw)
		}
		gvks, _, err := scheme.Scheme.ObjectKinds(tt.obj)
		rig.OK(t, err)
		frame := protoFrame(t, &runtime.Unknown{TypeMeta: runtime.TypeMeta{Kind: gvks[0].Kind,
			APIVersion: gvks[0].GroupVersion().String()}, Raw: raw})
		rig.OK(t, tt.obj.(message).Unmarshal(raw))
		for _, share := range []bool{false, true} {
			d := rig.Must[*decode.Decoder](t)(decode.New(reflect.TypeOf(tt.obj), decode.Options{Share: share}))
			(&reader{Decoder: d}).same(t, frame, decode.Protobuf, tt.obj, nil)
		}
	}
}

// A podPlace is the smallest of the projections, and what most are.
type podPlace struct {
	lw.Meta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec    struct {
		NodeName string `json:"nodeName" protobuf:"bytes,10,opt,name=nodeName"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase" protobuf:"bytes,1,opt,name=phase"`
		PodIP string          `json:"podIP" protobuf:"bytes,6,opt,name=podIP"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A podLoad has quantities, ports, times and types of the API.
type podLoad struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	Spec              struct {
		Containers []*struct {
			Name      string `json:"name" protobuf:"bytes,1,opt,name=name"`
			Resources struct {
				Limits   map[string]resource.Quantity `json:"limits" protobuf:"bytes,1,rep,name=limits"`
				Requests corev1.ResourceList          `json:"requests" protobuf:"bytes,2,rep,name=requests"`
			} `json:"resources" protobuf:"bytes,8,opt,name=resources"`
			LivenessProbe *struct {
				corev1.ProbeHandler `json:",inline" protobuf:"bytes,1,opt,name=handler"`
				PeriodSeconds       int32 `json:"periodSeconds" protobuf:"varint,4,opt,name=periodSeconds"`
			} `json:"livenessProbe" protobuf:"bytes,10,opt,name=livenessProbe"`
			ReadinessProbe struct {
				handler `protobuf:"bytes,1,opt,name=handler"`
			} `json:"readinessProbe" protobuf:"bytes,11,opt,name=readinessProbe"`
		} `json:"containers" protobuf:"bytes,2,rep,name=containers"`
		Tolerations []corev1.Toleration  `json:"tolerations" protobuf:"bytes,22,opt,name=tolerations"`
		Grace       *int64               `json:"terminationGracePeriodSeconds" protobuf:"varint,4,opt,name=terminationGracePeriodSeconds"`
		HostNetwork bool                 `json:"hostNetwork" protobuf:"varint,11,opt,name=hostNetwork"`
		Affinity    *corev1.NodeAffinity `json:"-"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
	Status struct {
		StartTime         *metav1.Time             `json:"startTime" protobuf:"bytes,7,opt,name=startTime"`
		ContainerStatuses []corev1.ContainerStatus `json:"containerStatuses" protobuf:"bytes,8,rep,name=containerStatuses"`
		PodIPs            []struct {
			IP string `json:"ip" protobuf:"bytes,1,opt,name=ip"`
		} `json:"podIPs" protobuf:"bytes,12,rep,name=podIPs"`
	} `json:"status" protobuf:"bytes,3,opt,name=status"`
}

// A handler is a ProbeHandler of which one field is of interest.
type handler struct {
	HTTPGet *struct {
		Path string             `json:"path" protobuf:"bytes,1,opt,name=path"`
		Port intstr.IntOrString `json:"port" protobuf:"bytes,2,opt,name=port"`
	} `json:"httpGet" protobuf:"bytes,2,opt,name=httpGet"`
}

// A rollout has an IntOrString whose tag in the API says varint.
type rollout struct {
	Metadata struct {
		lw.Meta
		Owners []metav1.OwnerReference `json:"ownerReferences" protobuf:"bytes,13,rep,name=ownerReferences"`
		Made   metav1.Time             `json:"creationTimestamp" protobuf:"bytes,8,opt,name=creationTimestamp"`
	} `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`
	Spec struct {
		Strategy struct {
			Rolling *struct {
				MaxUnavailable *intstr.IntOrString `json:"maxUnavailable" protobuf:"varint,2,opt,name=maxUnavailable"`
			} `json:"rollingUpdate" protobuf:"bytes,2,opt,name=rollingUpdate"`
		} `json:"updateStrategy" protobuf:"bytes,7,opt,name=updateStrategy"`
	} `json:"spec" protobuf:"bytes,2,opt,name=spec"`
}

func TestProjections(t *testing.T) {
	t.Run("podPlace", checkProjection[podPlace, corev1.Pod])
	t.Run("podLoad", checkProjection[podLoad, corev1.Pod])
	t.Run("rollout", checkProjection[rollout, appsv1.StatefulSet])
}

type message interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// checkProjection compares what lw decodes of random objects into P, from protobuf and from JSON,
// with what apimachinery decodes of their JSON.
func checkProjection[P, T any](t *testing.T) {
	lwtest.Projection[P, T](t)
	const objects, seed = 60, 1
	fill := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs), rand.NewSource(seed),
		serializer.NewCodecFactory(scheme.Scheme))
	for n := range 4 {
		d := rig.Must[*decode.Decoder](t)(decode.New(reflect.TypeFor[*P](), decode.Options{Share: n%2 == 1}))
		r := reader{Decoder: d}
		if n >= 2 {
			d.ReuseFrom(func(string, string) any { return r.last })
		}
		for range objects {
			full := new(T)
			fill.Fill(full)
			raw := rig.Must[[]byte](t)(any(full).(message).Marshal())
			// An empty list is none in protobuf.
			full = new(T)
			rig.OK(t, any(full).(message).Unmarshal(raw))
			text := rig.Must[[]byte](t)(json.Marshal(full))
			want := new(P)
			rig.OK(t, json.Unmarshal(text, want))
			r.same(t, protoFrame(t, &runtime.Unknown{Raw: raw}), decode.Protobuf, want, nil)
			r.same(t, []byte(`{"type":"ADDED","object":`+string(text)+"}\n"), decode.JSON, want, nil)
			if t.Failed() {
				return
			}
		}
	}
}

// An informer of a projection asks its server for protobuf, gets it, and keeps what the pods have.
func TestProjectionInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := served(t, protoPods)
		var types calls // of the answers
		direct := client.Transport
		client.Transport = rig.RoundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := direct.RoundTrip(r)
			if err == nil {
				types.note("%s", resp.Header.Get("Content-Type"))
			}
			return resp, err
		})
		pods := server.Collection("pods")
		place := func(name, node string, phase corev1.PodPhase) *corev1.Pod {
			p := pod("default", name)
			p.Spec.NodeName, p.Status.Phase, p.Status.PodIP = node, phase, "10.0.0.1"
			return p
		}
		rig.Must[apiserver.Object](t)(pods.Create(place("a", "n1", corev1.PodPending)))
		inf := lw.NewInformer(&lw.HTTP[*podPlace]{URL: "http://server/api/v1/pods", Client: client}, nil)
		byNode := lw.NewIndex(inf, func(p *podPlace) string { return p.Spec.NodeName })
		go inf.Run(t.Context())
		rig.OK(t, inf.WaitForSync(t.Context()))
		rig.Must[apiserver.Object](t)(pods.Create(place("b", "n2", corev1.PodPending)))
		rig.Must[apiserver.Object](t)(pods.Update(place("a", "n1", corev1.PodRunning)))
		time.Sleep(time.Minute)
		var got []string
		for p := range inf.Store().All() {
			got = append(got, strings.Join([]string{lw.KeyOf(p).String(), p.Spec.NodeName, string(p.Status.Phase),
				p.Status.PodIP}, " "))
		}
		slices.Sort(got)
		rig.Same(t, "pods", []string{"default/a n1 Running 10.0.0.1", "default/b n2 Pending 10.0.0.1"}, got)
		rig.Same(t, "pods on n1", 1, byNode.Len("n1"))
		if all := types.take(); len(all) == 0 || slices.ContainsFunc(all,
			func(s string) bool { return !strings.HasPrefix(s, "application/vnd.kubernetes.protobuf") }) {
			t.Errorf("the server answered in %q", all)
		}
	})
}
