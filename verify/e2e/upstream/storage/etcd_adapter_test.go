package storage_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/utils/clock"

	"github.com/go-lw/lw"
	"github.com/go-lw/lw/etcd"
	"github.com/go-lw/lw/internal/verify/rig"
)

// An etcdStore is the store of kube-apiserver over an etcd, but for what it lists and watches: that
// is a Collection of module etcd, which reads what the store has written.
type etcdStore struct {
	storage.Interface
	client *kubernetes.Client
	keys   *store // knows what a key names
	pods   *etcd.Collection[*etcdPod]
}

// An etcdPod is a pod as it is selected: a Collection selects by labels, so the fields that pods
// are selected by are among them.
type etcdPod struct {
	examplev1.Pod
	namespace string // that is stored: a Collection fills in what is not
	uid       types.UID
}

// nodeName is the only field that the tests select by, beside those of the metadata.
const nodeName = "spec.nodeName"

func (p *etcdPod) GetLabels() map[string]string {
	out := maps.Clone(p.Labels)
	if out == nil {
		out = map[string]string{}
	}
	out[nodeName] = p.Spec.NodeName
	return out
}

// etcdCodec is Kube for etcdPods.
type etcdCodec struct{ etcd.Codec[*examplev1.Pod] }

func (c etcdCodec) Encode(p *etcdPod) ([]byte, error) { return c.Codec.Encode(&p.Pod) }

func (c etcdCodec) Decode(data []byte) (*etcdPod, error) {
	p, err := c.Codec.Decode(data)
	if err != nil {
		return nil, err
	}
	return &etcdPod{*p, p.Namespace, p.UID}, nil
}

func newEtcdStore(t *testing.T, s setting) *etcdStore {
	t.Helper()
	client := testserver.RunEtcd(t, nil)
	compactor := etcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil)
	t.Cleanup(compactor.Stop)
	codec := codecs.LegacyCodec(examplev1.SchemeGroupVersion)
	inner, err := etcd3.New(client, compactor, codec,
		func() runtime.Object { return &example.Pod{} }, func() runtime.Object { return &example.PodList{} },
		"", "/pods/", schema.GroupResource{Resource: "pods"}, identity.NewEncryptCheckTransformer(),
		etcd3.NewDefaultLeaseManagerConfig(), etcd3.NewDefaultDecoder(codec, storage.APIObjectVersioner{}),
		storage.APIObjectVersioner{})
	rig.OK(t, err)
	t.Cleanup(inner.Close)
	out := &etcdStore{Interface: inner, client: client, keys: &store{setting: s}}
	out.pods = rig.Must[*etcd.Collection[*etcdPod]](t)(etcd.New(client.Client, "/pods/", &etcd.Options[*etcdPod]{
		Codec: etcdCodec{etcd.Kube[*examplev1.Pod]()}, ClusterScoped: s.cluster, Progress: time.Second / 4,
	}))
	return out
}

// options are those of a list or a watch of key.
func (s *etcdStore) options(key string, opts storage.ListOptions) metav1.ListOptions {
	list := s.keys.options(key, opts)
	namespace, _ := s.keys.split(key)
	fields, labels := []string{}, []string{}
	if namespace != "" {
		fields = append(fields, "metadata.namespace="+namespace)
	}
	if list.LabelSelector != "" {
		labels = append(labels, list.LabelSelector)
	}
	for _, field := range strings.Split(list.FieldSelector, ",") {
		switch {
		case field == "":
		case strings.HasPrefix(field, nodeName):
			labels = append(labels, field)
		default:
			fields = append(fields, field)
		}
	}
	list.FieldSelector, list.LabelSelector = strings.Join(fields, ","), strings.Join(labels, ",")
	return *list
}

// received returns what was read as the store's tests have it.
func received(p *etcdPod) (*example.Pod, error) {
	v1, out := p.Pod.DeepCopy(), &example.Pod{}
	v1.Namespace, v1.UID = p.namespace, p.uid
	return out, internal(v1, out)
}

// A position is the continue token of a Collection.
type position struct {
	Revision int64  `json:"rev"`
	Next     []byte `json:"next"`
}

// Create writes where the Collection has an object: some tests have pods without a namespace, with
// an empty part in the key.
func (s *etcdStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return s.Interface.Create(ctx, path.Clean(key), obj, out, ttl)
}

// revision returns that of the etcd.
func (s *etcdStore) revision(ctx context.Context) (int64, error) {
	got, err := s.client.Client.Get(ctx, "none", clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return got.Header.Revision, nil
}

// prefixOf is the part of the keys that the tokens of the store leave out.
func prefixOf(key string, recursive bool) string {
	if recursive && !strings.HasSuffix(key, "/") {
		key += "/"
	}
	return key
}

// resume turns a token of kube-apiserver into one of the Collection. The revision -1 is that of a
// list which goes on at the newest state.
func (s *etcdStore) resume(ctx context.Context, key string, opts *metav1.ListOptions) (from position, err error) {
	next, revision, err := storage.DecodeContinue(opts.Continue, key)
	if err != nil {
		return from, apierrors.NewBadRequest("invalid continue token: " + err.Error())
	}
	if revision <= 0 {
		if revision, err = s.revision(ctx); err != nil {
			return from, err
		}
	}
	from = position{revision, []byte(next)}
	data, err := json.Marshal(from)
	opts.Continue = base64.RawURLEncoding.EncodeToString(data)
	return from, err
}

func (s *etcdStore) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	list, prefix := s.options(key, opts), prefixOf(key, opts.Recursive)
	var from position
	if list.Continue != "" {
		var err error
		if from, err = s.resume(ctx, prefix, &list); err != nil {
			return err
		}
		if list.ResourceVersion == "0" {
			list.ResourceVersion = "" // the store of kube-apiserver allows both
		}
	}
	pods := out.(*example.PodList)
	pods.Items = []example.Pod{}
	meta, err := s.pods.List(ctx, list, func(p *etcdPod, err error) error {
		if err != nil {
			return err
		}
		pod, err := received(p)
		if err == nil {
			pods.Items = append(pods.Items, *pod)
		}
		return err
	})
	if status, ok := err.(apierrors.APIStatus); ok && apierrors.IsResourceExpired(err) {
		return expired(status.Status(), from, prefix)
	}
	if err != nil {
		return err
	}
	pods.ListMeta = metav1.ListMeta{ResourceVersion: meta.ResourceVersion, RemainingItemCount: meta.RemainingItemCount}
	if meta.Continue == "" {
		return nil
	}
	data, err := base64.RawURLEncoding.DecodeString(meta.Continue)
	if err == nil {
		err = json.Unmarshal(data, &from)
	}
	if err == nil {
		pods.Continue, err = storage.EncodeContinue(string(from.Next), prefix, from.Revision)
	}
	return err
}

// expired is a 410 in the words of kube-apiserver. That of a page has a token with which the list
// goes on at the newest state.
func expired(status metav1.Status, from position, prefix string) error {
	if from.Revision == 0 {
		status.Message = "The resourceVersion for the provided list is too old: " + status.Message
		return &apierrors.StatusError{ErrStatus: status}
	}
	status.Message = "The provided continue parameter is too old to display a consistent list result: " + status.Message
	next, err := storage.EncodeContinue(string(from.Next), prefix, -1)
	if err != nil {
		return err
	}
	status.ListMeta.Continue = next
	return &apierrors.StatusError{ErrStatus: status}
}

// An etcdWatch is a watch of a Collection. A deletion is told by its key there: who follows has the
// object. So it begins with a list of what there was.
type etcdWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
	once   sync.Once
	known  map[lw.Key]*example.Pod
}

func (w *etcdWatch) Stop()                          { w.once.Do(w.cancel) }
func (w *etcdWatch) ResultChan() <-chan watch.Event { return w.events }

func (s *etcdStore) Watch(ctx context.Context, key string, opts storage.ListOptions) (watch.Interface, error) {
	list := s.options(key, opts)
	list.Limit, list.Continue, list.AllowWatchBookmarks = 0, "", opts.ProgressNotify || list.AllowWatchBookmarks
	list.ResourceVersionMatch = ""
	ctx, cancel := context.WithCancel(ctx)
	w := &etcdWatch{events: make(chan watch.Event, 100), cancel: cancel, known: map[lw.Key]*example.Pod{}}
	go func() {
		defer close(w.events)
		defer cancel()
		err := s.before(ctx, w, list)
		if err == nil {
			err = s.pods.Watch(ctx, list, func(ev lw.WatchEvent[*etcdPod]) error { return w.event(ctx, ev) })
		}
		if ctx.Err() == nil && err != nil {
			status := apierrors.NewInternalError(err).Status()
			if s, ok := err.(apierrors.APIStatus); ok {
				status = s.Status()
			}
			w.send(ctx, watch.Event{Type: watch.Error, Object: &status})
		}
	}()
	return w, nil
}

// before reads what there was when the watch begins.
func (s *etcdStore) before(ctx context.Context, w *etcdWatch, list metav1.ListOptions) error {
	if list.ResourceVersion == "" || list.ResourceVersion == "0" {
		return nil // it begins with all there is
	}
	list.AllowWatchBookmarks, list.ResourceVersionMatch = false, metav1.ResourceVersionMatchExact
	_, err := s.pods.List(ctx, list, func(p *etcdPod, err error) error {
		if err != nil {
			return err
		}
		w.known[lw.KeyOf(p)], err = received(p)
		return err
	})
	return err
}

func (w *etcdWatch) event(ctx context.Context, ev lw.WatchEvent[*etcdPod]) error {
	if ev.Err != nil {
		return ev.Err
	}
	if ev.Type == watch.Bookmark {
		pod := &example.Pod{}
		pod.ResourceVersion = ev.ResourceVersion
		return w.send(ctx, watch.Event{Type: ev.Type, Object: pod})
	}
	key := ev.Key()
	if ev.Type == watch.Deleted {
		pod := w.known[key].DeepCopy()
		pod.ResourceVersion = ev.ResourceVersion
		delete(w.known, key)
		return w.send(ctx, watch.Event{Type: ev.Type, Object: pod})
	}
	pod, err := received(ev.Object)
	if err != nil {
		return err
	}
	w.known[key] = pod.DeepCopy()
	return w.send(ctx, watch.Event{Type: ev.Type, Object: pod})
}

func (w *etcdWatch) send(ctx context.Context, ev watch.Event) error {
	select {
	case w.events <- ev:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// increase makes a revision at which no pod changes.
func (s *etcdStore) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	got := rig.Must[*clientv3.PutResponse](t)(s.client.KV.Put(ctx, "increaseRV", "ok"))
	return got.Header.Revision
}

// compact has the etcd forget the revisions before version, as kube-apiserver has it.
func (s *etcdStore) compact(ctx context.Context, t *testing.T, version string) {
	t.Helper()
	revision := rig.Must[uint64](t)(storage.APIObjectVersioner{}.ParseResourceVersion(version))
	current, _, _, err := etcd3.Compact(ctx, s.client.Client, 0, int64(revision))
	if err != nil {
		_, _, _, err = etcd3.Compact(ctx, s.client.Client, current, int64(revision))
	}
	if err != nil {
		t.Fatal(err)
	}
	for s.Interface.CompactRevision() != int64(revision) {
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}
