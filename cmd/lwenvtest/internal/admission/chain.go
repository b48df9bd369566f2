// Package admission is the admission of an API server by webhooks and policies: those of
// MutatingWebhookConfigurations, ValidatingWebhookConfigurations and of the AdmissionPolicies of
// both kinds. The plugins are those of k8s.io/apiserver, which kube-apiserver runs, so rules,
// selectors, conditions, conversions, timeouts, failures and messages are its own. The package
// gives them the writes of a [lwtest.Server], and gives the server what they make of the objects.
//
// As in a cluster, a configuration takes effect when the plugins have seen it, which is some
// milliseconds after its write, and up to a second for a policy.
package admission

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	mutatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	validatingpolicy "k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	webhookinitializer "k8s.io/apiserver/pkg/admission/plugin/webhook/initializer"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/go-lw/lw/lwtest"
)

// Agent is the User-Agent of the plugins' own requests, which read configurations and namespaces.
const Agent = "lwenvtest-admission"

// A Chain is the plugins of a server. It admits everything until Start. The zero Chain is ready to
// use, and must not be copied. It is safe for concurrent use.
type Chain struct {
	running    atomic.Pointer[plugins]
	equivalent onceMapper
}

// plugins is what Start makes: the plugins in kube-apiserver's order.
type plugins struct {
	admission.MutationInterface
	admission.ValidationInterface
	services services
}

// onceMapper knows the versions of each resource.
type onceMapper struct {
	once   sync.Once
	mapper runtime.EquivalentResourceRegistry
}

func (m *onceMapper) get() runtime.EquivalentResourceRegistry {
	m.once.Do(func() { m.mapper = runtime.NewEquivalentResourceRegistry() })
	return m.mapper
}

// Start lets the plugins read the server's configurations by config, until ctx ends. may answers
// the authorizer of expressions; nil: everything is allowed. The server must serve namespaces and
// services, and what [Resources] returns.
func (c *Chain) Start(ctx context.Context, config *rest.Config, may authorizer.Authorizer) error {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = Agent, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("lwenvtest: admission: %w", err)
	}
	open, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("lwenvtest: admission: %w", err)
	}
	if may == nil {
		may = authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionAllow, "", nil
		})
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery()))
	all := admission.NewPlugins()
	mutatingpolicy.Register(all)
	mutatingwebhook.Register(all)
	validatingpolicy.Register(all)
	validatingwebhook.Register(all)
	given := admission.PluginInitializers{
		webhookinitializer.NewPluginInitializer(nil, services{client}),
		initializer.New(client, open, shared, may, utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(),
			ctx.Done(), mapper),
	}
	order := []string{
		mutatingpolicy.PluginName, mutatingwebhook.PluginName, validatingpolicy.PluginName, validatingwebhook.PluginName,
	}
	none, err := admission.ReadAdmissionConfiguration(order, "", nil)
	if err != nil {
		return fmt.Errorf("lwenvtest: admission: %w", err)
	}
	chain, err := all.NewFromPlugins(order, none, given, nil)
	if err != nil {
		return fmt.Errorf("lwenvtest: admission: %w", err)
	}
	shared.Start(ctx.Done())
	c.running.Store(&plugins{chain.(admission.MutationInterface), chain.(admission.ValidationInterface), services{client}})
	return nil
}

// ResolveEndpoint finds the endpoint of a webhook that is a Service, also for those that convert
// objects. There is none before Start.
func (c *Chain) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	running := c.running.Load()
	if running == nil {
		return nil, fmt.Errorf("service %q not found", name)
	}
	return running.services.ResolveEndpoint(namespace, name, port)
}

// services finds the endpoints of webhooks that are Services, by their cluster IPs as
// kube-apiserver does.
type services struct{ client kubernetes.Interface }

func (s services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	svc, err := s.client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("service %q not found", name) // kube-apiserver reads it from an informer
	} else if err != nil {
		return nil, err
	}
	switch {
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return &url.URL{Scheme: "https", Host: svc.Spec.ExternalName + ":" + strconv.Itoa(int(port))}, nil
	case svc.Spec.ClusterIP == "" || svc.Spec.ClusterIP == corev1.ClusterIPNone:
		return nil, fmt.Errorf("cannot route to service with ClusterIP %q", svc.Spec.ClusterIP)
	}
	return &url.URL{Scheme: "https", Host: svc.Spec.ClusterIP + ":" + strconv.Itoa(int(port))}, nil
}

// Admit returns r with its writes admitted by the chain: after Default, and after Validate.
func (c *Chain) Admit(r lwtest.Resource) lwtest.Resource {
	k := newKind(r, c.equivalent.get())
	fill, check := r.Default, r.Validate
	r.Default = func(ctx context.Context, a lwtest.Admission) error {
		if fill != nil {
			if err := fill(ctx, a); err != nil {
				return err
			}
		}
		changed, err := c.mutate(ctx, k, a)
		if err == nil && changed && fill != nil {
			err = fill(ctx, a)
		}
		return err
	}
	r.Validate = func(ctx context.Context, a lwtest.Admission) error {
		if check != nil {
			if err := check(ctx, a); err != nil {
				return err
			}
		}
		return c.validate(ctx, k, a)
	}
	return r
}

// mutate lets the mutating plugins change the object of a, and reports whether they have.
func (c *Chain) mutate(ctx context.Context, k *kind, a lwtest.Admission) (changed bool, err error) {
	running := c.running.Load()
	if running == nil {
		return false, nil
	}
	v, err := k.view(a)
	if err != nil {
		return false, err
	}
	if v.posted { // nothing of the server could take a change of it
		return false, warned(ctx, a, func(ctx context.Context) error { return running.Admit(ctx, v.attributes(), k) })
	}
	if a.Verb == lwtest.Create {
		v.unborn(a.Name)
	}
	before := v.object.DeepCopy()
	if err := warned(ctx, a, func(ctx context.Context) error { return running.Admit(ctx, v.attributes(), k) }); err != nil {
		return false, err
	}
	if equal(before, v.object) {
		return false, nil
	}
	return true, v.close()
}

// validate refuses a by an error of the validating plugins. A deletion is asked about of all
// plugins here, since the engine knows no Default of one.
func (c *Chain) validate(ctx context.Context, k *kind, a lwtest.Admission) error {
	running := c.running.Load()
	if running == nil {
		return nil
	}
	v, err := k.view(a)
	if err != nil {
		return err
	}
	return warned(ctx, a, func(ctx context.Context) error {
		if a.Verb == lwtest.Delete {
			if err := running.Admit(ctx, v.attributes(), k); err != nil {
				return err
			}
		}
		return running.Validate(ctx, v.attributes(), k)
	})
}

// warned calls ask with a context in which webhooks warn, and passes the warnings on.
func warned(ctx context.Context, a lwtest.Admission, ask func(ctx context.Context) error) error {
	var all warnings
	err := ask(warning.WithWarningRecorder(ctx, &all))
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, text := range all.texts {
		a.Warn(text)
	}
	return err
}

// warnings are those of webhooks, which are called in parallel.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// AddWarning implements [warning.Recorder].
func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}
