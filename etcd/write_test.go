package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/etcd/internal/fakeetcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

var keyA = lw.Key{Namespace: "ns", Name: "a"}

// stored returns what the server has at the key of a: the value, and the revision of its last
// change.
func (f *fake) stored() string {
	f.t.Helper()
	resp, err := f.Client.Get(f.t.Context(), "/w/ns/a")
	rig.OK(f.t, err)
	if len(resp.Kvs) == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s at %d", resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
}

// between runs do before the next transaction of a collection.
func (f *fake) between(do func()) {
	f.Set(fakeetcd.Hooks{Txn: func(req *pb.TxnRequest) (*pb.TxnResponse, error) {
		f.script(nil, nil)
		do()
		return f.Commit(req)
	}})
}

// TestUpdate: what an update finds, what it says of itself, and what comes of it.
func TestUpdate(t *testing.T) {
	const bare, other, mine = `{"metadata":{},"n":1}`, `{"metadata":{},"n":7}`, `{"metadata":{"uid":"mine"},"n":1}`
	const made, madeMine = `{"metadata":{"namespace":"ns","name":"a"},"n":2}`,
		`{"metadata":{"namespace":"ns","name":"a","uid":"mine"},"n":2}`
	for _, tt := range []struct {
		name         string
		is           []string // the values before, from revision 2 on; "" is a deletion
		version, uid string
		meanwhile    []string // what others write between the read and the write
		want         func(error) bool
		stored       string
		result       string // UID and version; none if it fails
	}{
		{"nothing is there", nil, "", "", nil, apierrors.IsNotFound, "nothing", ""},
		{"it was deleted", []string{bare, ""}, "", "", nil, apierrors.IsNotFound, "nothing", ""},
		{"any", []string{bare}, "", "", nil, nil, made + " at 3", "2 3"},
		{"any, as 0", []string{bare, bare}, "0", "", nil, nil, made + " at 4", "2 4"},
		{"the version", []string{bare, bare}, "3", "", nil, nil, made + " at 4", "2 4"},
		{"the version and the UID", []string{bare, bare}, "3", "2", nil, nil, made + " at 4", "2 4"},
		{"an old version", []string{bare, bare}, "2", "", nil, apierrors.IsConflict, bare + " at 3", ""},
		{"a version that there was not", []string{bare}, "9", "", nil, apierrors.IsConflict, bare + " at 2", ""},
		{"another UID", []string{bare}, "", "3", nil, apierrors.IsConflict, bare + " at 2", ""},
		{"the UID of the one before", []string{bare, "", bare}, "", "2", nil, apierrors.IsConflict, bare + " at 4", ""},
		{"its own UID", []string{mine}, "2", "mine", nil, nil, madeMine + " at 3", "mine 3"},
		{"its own UID is kept", []string{mine}, "", "", nil, nil, madeMine + " at 3", "mine 3"},
		{"not its own UID", []string{mine}, "2", "2", nil, apierrors.IsConflict, mine + " at 2", ""},
		{"nothing changes", []string{made}, "", "", nil, nil, made + " at 2", "2 2"},
		{"nothing changes, with its own UID", []string{madeMine}, "2", "mine", nil, nil, madeMine + " at 2", "mine 2"},
		{"nothing changes, of an old version", []string{bare, made}, "2", "", nil, apierrors.IsConflict, made + " at 3", ""},
		{"garbage", []string{bare, "garbage"}, "", "", nil, nil, made + " at 4", "2 4"},
		{"garbage of the version", []string{"garbage"}, "2", "2", nil, nil, made + " at 3", "2 3"},
		{"garbage of another version", []string{bare, "garbage"}, "2", "", nil, apierrors.IsConflict, "garbage at 3", ""},
		{"garbage of another UID", []string{"garbage"}, "", "mine", nil, apierrors.IsConflict, "garbage at 2", ""},
		{"another writer", []string{bare}, "", "", []string{other}, nil, made + " at 4", "2 4"},
		{"another writer, and the version", []string{bare}, "2", "", []string{other}, apierrors.IsConflict,
			other + " at 3", ""},
		{"another writer gives it a UID", []string{bare}, "", "", []string{mine}, nil, madeMine + " at 4", "mine 4"},
		{"another writer makes it anew", []string{bare}, "", "2", []string{"", other}, apierrors.IsConflict,
			other + " at 4", ""},
		{"another writer deletes it", []string{bare}, "", "", []string{""}, apierrors.IsNotFound, "nothing", ""},
	} {
		for _, read := range []bool{false, true} { // whether the collection has read it before
			bubble(t, func(t *testing.T, f *fake) {
				write := func(values []string) {
					for _, v := range values {
						f.write("ns/a", v)
					}
				}
				write(tt.is)
				c := f.collection(0)
				if read {
					_, _ = c.Get(t.Context(), keyA)
				}
				if len(tt.meanwhile) > 0 {
					f.between(func() { write(tt.meanwhile) })
				}
				obj := newItem("a", 2)
				obj.ResourceVersion, obj.UID = tt.version, types.UID(tt.uid)
				before := *obj
				got, err := c.Update(t.Context(), obj)
				if tt.want == nil && err != nil || tt.want != nil && (!tt.want(err) || got != nil) {
					t.Errorf("%s, read before %v: %v, %v", tt.name, read, got, err)
				}
				if is := f.stored(); is != tt.stored {
					t.Errorf("%s, read before %v: stored is %s, want %s", tt.name, read, is, tt.stored)
				}
				if got != nil {
					if is := fmt.Sprint(got.UID, " ", got.ResourceVersion); is != tt.result || lw.KeyOf(got) != keyA || got.N != 2 {
						t.Errorf("%s, read before %v: %+v, want %s", tt.name, read, got, tt.result)
					}
				}
				if diff := cmp.Diff(&before, obj); diff != "" || got == obj {
					t.Errorf("%s, read before %v: the caller's object (-before +after):\n%s", tt.name, read, diff)
				}
			})
		}
	}
}

// TestUpdateAfterGet: an update of what was read within a second does not read it again.
func TestUpdateAfterGet(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		f.write("ns/a", `{"metadata":{"uid":"mine"},"n":1}`)
		c := f.collection(0)
		f.asked()
		for range 3 {
			obj, err := c.Get(t.Context(), keyA)
			rig.OK(t, err)
			obj.N++
			if obj, err = c.Update(t.Context(), obj); err != nil || obj.UID != "mine" {
				t.Fatal(obj, err)
			}
		}
		obj, err := c.Get(t.Context(), keyA)
		time.Sleep(2 * time.Second)
		if obj.N = 4; err == nil {
			_, err = c.Update(t.Context(), obj)
		}
		if stored := `{"metadata":{"namespace":"ns","name":"a","uid":"mine"},"n":4} at 5`; err != nil ||
			len(f.asked()) != 5 || f.stored() != stored {
			t.Errorf("stored is %s, want %s after 5 reads", f.stored(), stored)
		}
		// Keys that meet in a place are not taken for each other, at one revision either.
		puts := make([]clientv3.Op, 100)
		for i := range puts {
			puts[i] = clientv3.OpPut(fmt.Sprint("/w/ns/", i), fmt.Sprintf(`{"metadata":{"uid":"%d"}}`, i))
		}
		rig.OK(t, second(f.Client.Txn(t.Context()).Then(puts...).Commit()))
		objs := make([]*item, len(puts))
		for i := range objs {
			objs[i], err = c.Get(t.Context(), lw.Key{Namespace: "ns", Name: fmt.Sprint(i)})
			rig.OK(t, err)
		}
		for i, obj := range objs {
			obj.UID, obj.N = "", 1
			if obj, err = c.Update(t.Context(), obj); err != nil || obj.UID != types.UID(fmt.Sprint(i)) {
				t.Errorf("%d: %v, %v", i, obj, err)
			}
		}
	})
}

// TestCreate: an object is made only where none is, also if the one that is does not decode.
func TestCreate(t *testing.T) {
	for is, want := range map[string]string{"": "2 2", "garbage": "", `{}`: ""} {
		for _, uid := range []types.UID{"", "mine"} {
			bubble(t, func(t *testing.T, f *fake) {
				if is != "" {
					f.write("ns/a", is)
				}
				obj := newItem("a", 2)
				obj.UID, obj.ResourceVersion = uid, "77"
				got, err := f.collection(0).Create(t.Context(), obj)
				if want == "" {
					if !apierrors.IsAlreadyExists(err) || got != nil || f.stored() != is+" at 2" {
						t.Errorf("over %q: %v, %v, and stored is %s", is, got, err, f.stored())
					}
					return
				}
				stored, made := `{"metadata":{"namespace":"ns","name":"a"},"n":2} at 2`, types.UID("2")
				if uid != "" {
					stored, made = `{"metadata":{"namespace":"ns","name":"a","uid":"mine"},"n":2} at 2`, uid
				}
				if err != nil || got.UID != made || got.ResourceVersion != "2" || got.N != 2 || f.stored() != stored {
					t.Errorf("%+v, %v, and stored is %s", got, err, f.stored())
				}
				if obj.UID != uid || obj.ResourceVersion != "77" {
					t.Errorf("the caller's object: %+v", obj)
				}
			})
		}
	}
}

// TestGet: what is there, garbage, and nothing.
func TestGet(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		c := f.collection(0)
		f.write("ns/a", `{"n":1}`)
		f.write("ns/a", `{"n":2}`, "ns/b", "garbage")
		got, err := c.Get(t.Context(), keyA)
		if want := (&item{Meta: lw.Meta{Namespace: "ns", Name: "a", UID: "2", ResourceVersion: "3"}, N: 2}); !cmp.Equal(want,
			got) || err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		var bad *lw.Error
		if got, err := c.Get(t.Context(), lw.Key{Namespace: "ns", Name: "b"}); got != nil || !errors.As(err, &bad) ||
			bad.Key.Name != "b" || bad.Op == "" || bad.Err == nil {
			t.Errorf("garbage: %v, %v", got, err)
		}
		if got, err := c.Get(t.Context(), lw.Key{Namespace: "ns", Name: "c"}); got != nil || !apierrors.IsNotFound(err) {
			t.Errorf("nothing: %v, %v", got, err)
		}
		if reads := f.asked(); len(reads) != 3 || strings.Contains(reads[0], "member") {
			t.Errorf("the reads: %q", reads)
		}
	})
}

// TestDelete: a deletion of a version, or of any.
func TestDelete(t *testing.T) {
	for _, tt := range []struct {
		is, version string
		want        func(error) bool
		left        string
		result      string
	}{
		{"", "", apierrors.IsNotFound, "nothing", ""},
		{"", "5", apierrors.IsNotFound, "nothing", ""},
		{`{}`, "", nil, "nothing", "4"},
		{`{}`, "0", nil, "nothing", "4"},
		{`{}`, "2", nil, "nothing", "4"},
		{`{}`, "1", apierrors.IsConflict, "{} at 2", ""},
		{`{}`, "3", apierrors.IsConflict, "{} at 2", ""},
		{`{}`, "x", apierrors.IsBadRequest, "{} at 2", ""},
		{"garbage", "2", nil, "nothing", "4"},
	} {
		bubble(t, func(t *testing.T, f *fake) {
			if tt.is != "" {
				f.write("ns/a", tt.is)
			}
			f.write("ns/b", `{}`)
			got, err := f.collection(0).Delete(t.Context(), keyA, tt.version)
			if got != tt.result || tt.want == nil && err != nil || tt.want != nil && !tt.want(err) {
				t.Errorf("%q at %q: %v, %v", tt.is, tt.version, got, err)
			}
			if is := f.stored(); is != tt.left {
				t.Errorf("%q at %q: %s is left", tt.is, tt.version, is)
			}
			if apierrors.IsConflict(err) && !strings.Contains(err.Error(), "version is 2, not "+tt.version) {
				t.Errorf("the conflict does not say what is there: %v", err)
			}
		})
	}
}

// TestLease: which writes attach an object to a lease, which leave it, and which detach it.
func TestLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		ctx := t.Context()
		lease, err := f.Client.Grant(ctx, 60)
		rig.OK(t, err)
		c := f.collection(0)
		leased := func(n int, obj *item, err error) *item {
			t.Helper()
			rig.OK(t, err)
			resp, err := f.Client.Get(ctx, "/w/ns/a")
			want := int64(0)
			if n > 0 {
				want = int64(lease.ID)
			}
			if err != nil || resp.Kvs[0].Lease != want || obj.ResourceVersion != fmt.Sprint(resp.Kvs[0].ModRevision) {
				t.Errorf("the lease is %d, want %d; the object is %+v", resp.Kvs[0].Lease, want, obj)
			}
			return obj
		}
		obj, err := c.Create(ctx, newItem("a", 1))
		leased(0, obj, err)
		obj, err = c.WithLease(lease.ID).Update(ctx, newItem("a", 1)) // only the lease changes
		first := leased(1, obj, err)
		obj, err = c.Update(ctx, newItem("a", 1))
		if same := leased(1, obj, err); same.ResourceVersion != first.ResourceVersion {
			t.Errorf("nothing has changed: %v", same)
		}
		obj, err = c.Update(ctx, newItem("a", 2))
		leased(1, obj, err)
		obj, err = c.WithLease(clientv3.NoLease).Update(ctx, newItem("a", 2))
		leased(0, obj, err)
		rig.OK(t, second(c.Delete(ctx, keyA, "")))
		obj, err = c.WithLease(lease.ID).Create(ctx, newItem("a", 1))
		leased(1, obj, err)
		rig.OK(t, second(f.Client.Revoke(ctx, lease.ID)))
		if _, err := c.Get(ctx, keyA); !apierrors.IsNotFound(err) {
			t.Errorf("the lease has ended: %v", err)
		}
		if _, err := c.WithLease(lease.ID).Create(ctx, newItem("a", 1)); err == nil {
			t.Error("a lease that has ended")
		}
	})
}

// TestInvalid: objects that have no key of their own are not written, and the error names the
// field.
func TestInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		scoped := collection(t, f, &etcd.Options[*item]{ClusterScoped: true, Resource: "items"})
		for _, tt := range []struct {
			c               *etcd.Collection[*item]
			namespace, name string
			want            string // fields
		}{
			{f.collection(0), "ns", "", "[metadata.name]"},
			{f.collection(0), "ns", "a/b", "[metadata.name]"},
			{f.collection(0), "n/s", "a", "[metadata.namespace]"},
			{f.collection(0), "", "a", "[metadata.namespace]"},
			{f.collection(0), "", "", "[metadata.name metadata.namespace]"},
			{f.collection(0), "n/s", "/", "[metadata.name metadata.namespace]"},
			{scoped, "ns", "a", "[metadata.namespace]"},
			{scoped, "", "a/", "[metadata.name]"},
			{scoped, "", "a\xff", "[metadata.name]"},
			{f.collection(0), "n\xffs", "a\xc3", "[metadata.name metadata.namespace]"},
		} {
			obj := &item{Meta: lw.Meta{Namespace: tt.namespace, Name: tt.name}}
			_, created := tt.c.Create(t.Context(), obj)
			_, updated := tt.c.Update(t.Context(), obj)
			for what, err := range map[string]error{"create": created, "update": updated} {
				var fields []string
				var s apierrors.APIStatus
				if errors.As(err, &s) && s.Status().Details != nil {
					for _, c := range s.Status().Details.Causes {
						fields = append(fields, c.Field)
					}
				}
				if !apierrors.IsInvalid(err) || fmt.Sprint(fields) != tt.want {
					t.Errorf("%s %q/%q: %v", what, tt.namespace, tt.name, err)
				}
			}
		}
		for what, err := range map[string]error{
			"create nil": second(scoped.Create(t.Context(), nil)), "update nil": second(scoped.Update(t.Context(), nil)),
			"a version": second(scoped.Update(t.Context(), &item{Meta: lw.Meta{Name: "a", ResourceVersion: "x"}})),
		} {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := scoped.Create(t.Context(), &item{Meta: lw.Meta{Name: "a"}}); err != nil {
			t.Errorf("%v", err)
		}
		_, err := scoped.Create(t.Context(), &item{Meta: lw.Meta{Name: "a"}})
		var s apierrors.APIStatus
		if !errors.As(err, &s) || s.Status().Details.Kind != "items" || s.Status().Details.Name != "a" {
			t.Errorf("the error does not name the object: %v", err)
		}
		if n := len(f.asked()); n > 0 {
			t.Errorf("%d reads", n)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A codec fails.
type failing struct{ etcd.Codec[*item] }

var errNo = errors.New("no")

func (failing) Encode(*item) ([]byte, error) { return nil, errNo }

// A nothing codec decodes to nil.
type nothing struct{ etcd.Codec[*item] }

func (nothing) Decode([]byte) (*item, error) { return nil, nil }

// A oneWay codec decodes nothing that it has encoded.
type oneWay struct{ etcd.Codec[*item] }

func (oneWay) Decode([]byte) (*item, error) { return nil, errNo }

// A changeling is an object whose copies are others.
type changeling struct{ metav1.PartialObjectMetadata }

func (c *changeling) DeepCopyObject() runtime.Object { return &metav1.PartialObjectMetadata{} }

// TestCodecFails: an object that cannot be encoded is not written, and the error names it; a value
// that is no object is an error of its key.
func TestCodecFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		ctx := context.Background()
		c := collection(t, f, &etcd.Options[*item]{Codec: failing{etcd.JSON[*item]()}})
		f.write("ns/b", `{}`)
		for what, err := range map[string]error{"create": second(c.Create(ctx, newItem("a", 1))),
			"update": second(c.Update(ctx, newItem("b", 1)))} {
			if !errors.Is(err, errNo) || !strings.Contains(err.Error(), what+" ns/") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if f.stored() != "nothing" || c.Hints().Decoder != "" {
			t.Errorf("%s, and the decoder is %q", f.stored(), c.Hints().Decoder)
		}
		blind := collection(t, f, &etcd.Options[*item]{Codec: oneWay{etcd.JSON[*item]()}})
		before := f.stored()
		for what, err := range map[string]error{"create": second(blind.Create(ctx, newItem("a", 1))),
			"update": second(blind.Update(ctx, newItem("b", 1)))} {
			if !errors.Is(err, errNo) || f.stored() != before {
				t.Errorf("%s of what cannot be read again: %v, and stored is %s", what, err, f.stored())
			}
		}
		none := collection(t, f, &etcd.Options[*item]{Codec: nothing{}})
		if got, _, err := f.list(none, metav1.ListOptions{}); err != nil || fmt.Sprint(got) != "[ns/b*]" {
			t.Errorf("%v, %v", got, err)
		}
		odd := collection[*changeling](t, f, nil)
		if obj, err := odd.Create(ctx, &changeling{metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
			Name: "a"}}}); err == nil || f.stored() != "nothing" {
			t.Errorf("%v, %v", obj, err)
		}
	})
}

// TestNew: what cannot be a collection is said at once, and what is left out has its default.
func TestNew(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		type inner struct {
			lw.Meta `json:"metadata"`
		}
		type Outer struct {
			lw.Meta `json:"metadata"`
		}
		for what, err := range map[string]error{
			"no client":          second(etcd.New[*item](nil, "/w/", nil)),
			"an empty client":    second(etcd.New[*item](&clientv3.Client{}, "/w/", nil)),
			"no prefix":          second(etcd.New[*item](f.Client, "", nil)),
			"a slash":            second(etcd.New[*item](f.Client, "/", nil)),
			"no slash":           second(etcd.New[*item](f.Client, "/w", nil)),
			"negative":           second(etcd.New(f.Client, "/w/", &etcd.Options[*item]{Progress: -1})),
			"not exported":       second(etcd.New[*struct{ inner }](f.Client, "/w/", nil)),
			"a pointer embedded": second(etcd.New[*struct{ *lw.Meta }](f.Client, "/w/", nil)),
			"an interface": second(etcd.New(f.Client, "/w/", &etcd.Options[metav1.Object]{
				Codec: struct{ etcd.Codec[metav1.Object] }{}})),
		} {
			if !errors.Is(err, lw.ErrPermanent) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, err := range map[string]error{
			"embedded": second(etcd.New[*struct{ Outer }](f.Client, "/w/", nil)),
			"embedded behind a field": second(etcd.New[*struct {
				N int
				Outer
			}](f.Client, "/w/", nil)),
			"an object of the API": second(etcd.New[*metav1.PartialObjectMetadata](f.Client, "/w/", nil)),
			"a short prefix":       second(etcd.New[*item](f.Client, "w/", nil)),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		opts := &etcd.Options[*item]{}
		c := collection(t, f, opts)
		opts.ClusterScoped = true // of a copy
		h := c.Hints()
		if !h.NoStream || h.StillHas == nil || h.Progress == nil || h.Decoder != "lw" {
			t.Errorf("%+v", h)
		}
		var s apierrors.APIStatus
		if _, err := c.Get(t.Context(), keyA); !errors.As(err, &s) || s.Status().Details.Kind != "w" ||
			f.asked()[0] != "/w/ns/a" {
			t.Errorf("%v", err)
		}
	})
}

// TestIdentities: each sort of object gets its key, its UID and its version, and keeps what else it
// says.
func TestIdentities(t *testing.T) {
	bubble(t, func(t *testing.T, f *fake) {
		type Outer struct {
			lw.Meta `json:"metadata"`
		}
		type deep struct {
			N int `json:"n"`
			Outer
		}
		c := collection[*deep](t, f, nil)
		stored, err := c.Create(t.Context(), &deep{7, Outer{lw.Meta{Namespace: "ns", Name: "a", UID: "u"}}})
		if want := (lw.Meta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "2"}); err != nil || stored.Meta != want ||
			stored.N != 7 {
			t.Errorf("%+v, %v", stored, err)
		}
		kube := collection(t, f,
			&etcd.Options[*metav1.PartialObjectMetadata]{Codec: etcd.Kube[*metav1.PartialObjectMetadata]()})
		f.write("ns/p", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"},"resourceVersion":"99"}}`)
		pod, err := kube.Get(t.Context(), lw.Key{Namespace: "ns", Name: "p"})
		if err != nil || pod.Namespace != "ns" || pod.UID != "3" || pod.ResourceVersion != "3" || pod.Labels["a"] != "b" ||
			pod.Kind != "Pod" {
			t.Errorf("%+v, %v", pod, err)
		}
		pod.Labels = map[string]string{"a": "c"}
		again, err := kube.Update(t.Context(), pod)
		if err != nil || again.UID != "3" || again.ResourceVersion != "4" || again.Labels["a"] != "c" ||
			pod.ResourceVersion != "3" {
			t.Errorf("%+v, %v", again, err)
		}
	})
}
