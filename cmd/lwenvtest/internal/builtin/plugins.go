package builtin

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/quota/v1/install"
	"k8s.io/kubernetes/pkg/registry/admissionregistration/resolver"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/approval"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/signing"
	"k8s.io/kubernetes/plugin/pkg/admission/certificates/subjectrestriction"
	"k8s.io/kubernetes/plugin/pkg/admission/defaulttolerationseconds"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	"k8s.io/kubernetes/plugin/pkg/admission/network/defaultingressclass"
	"k8s.io/kubernetes/plugin/pkg/admission/nodetaint"
	"k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/kubernetes/plugin/pkg/admission/security/podsecurity"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/persistentvolume/resize"
)

// agent is the User-Agent of the plugins' own requests, which read classes and limits, and write what
// quotas have left.
const agent = "lwenvtest-plugins"

// The plugins that the kube-apiserver of envtest runs, in its order, but for what is about nodes with
// a kubelet.
var plugins = []struct {
	name     string
	register func(*admission.Plugins)
}{
	{limitranger.PluginName, limitranger.Register},
	{nodetaint.PluginName, nodetaint.Register},
	{podsecurity.PluginName, podsecurity.Register},
	{priority.PluginName, priority.Register},
	{defaulttolerationseconds.PluginName, defaulttolerationseconds.Register},
	{defaultClass, registerClaimClasses},
	{resize.PluginName, resize.Register},
	{runtimeclass.PluginName, runtimeclass.Register},
	{approval.PluginName, approval.Register},
	{signing.PluginName, signing.Register},
	{subjectrestriction.PluginName, subjectrestriction.Register},
	{defaultingressclass.PluginName, defaultingressclass.Register},
	{podtopologylabels.PluginName, podtopologylabels.Register}, // a Binding has the labels from package apiserver
	// A quota counts built-in kinds alone, also those that a webhook refuses after it.
	{resourcequota.PluginName, resourcequota.Register},
}

// Plugins are the admission plugins of kube-apiserver for the built-in kinds. They admit everything
// until Start. The zero Plugins are ready to use, and must not be copied.
type Plugins struct{ running atomic.Pointer[chain] }

// scheme is what the plugins know of the kinds.
var scheme = admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)

type chain struct {
	admission.MutationInterface
	admission.ValidationInterface

	client kubernetes.Interface
	may    authorizer.Authorizer
	kinds  resolver.ResourceResolver
}

// Start lets the plugins read the server by config, until ctx ends. may answers what the author of a
// write may do, such as to approve certificates.
func (p *Plugins) Start(ctx context.Context, config *rest.Config, may authorizer.Authorizer) error {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = agent, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	shared := informers.NewSharedInformerFactory(client, 0)
	all := admission.NewPlugins()
	var order []string
	for _, plugin := range plugins {
		plugin.register(all)
		order = append(order, plugin.name)
	}
	none, err := admission.ReadAdmissionConfiguration(order, "", nil)
	if err != nil {
		return fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	given := initializer.New(client, nil, shared, may, utilfeature.DefaultFeatureGate, compatibility.DefaultBuildEffectiveVersion(),
		ctx.Done(), nil)
	quotas, err := install.NewQuotaConfigurationForAdmission(shared, nil)
	if err != nil {
		return fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	made, err := all.NewFromPlugins(order, none, admission.PluginInitializers{given, quotaInitializer{quotas}}, nil)
	if err != nil {
		return fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	kinds, err := resolver.NewDiscoveryResourceResolver(client.Discovery())
	if err != nil {
		return fmt.Errorf("lwenvtest: builtin: %w", err)
	}
	shared.Start(ctx.Done())
	p.running.Store(&chain{made.(admission.MutationInterface), made.(admission.ValidationInterface), client, may, kinds})
	return nil
}

// A quotaInitializer tells a plugin how objects count in quotas.
type quotaInitializer struct{ quotas quota.Configuration }

// Initialize implements [admission.PluginInitializer].
func (i quotaInitializer) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsQuotaConfiguration); ok {
		wants.SetQuotaConfiguration(i.quotas)
	}
}

// fill lets the plugins change the object of a write, or refuse it.
func (p *Plugins) fill(w write) error {
	running := p.chain()
	if running == nil {
		return nil
	}
	if err := running.Admit(w.ctx, w.attributes, scheme); err != nil {
		return err
	}
	return protect(w)
}

// protect gives a new volume, or the claim of one, the finalizer that a controller takes away when
// nobody uses it, as the plugin StorageObjectInUseProtection, which is built on half of the kubelet.
func protect(w write) error {
	finalizer := map[string]string{
		"persistentvolumeclaims": "kubernetes.io/pvc-protection", "persistentvolumes": "kubernetes.io/pv-protection",
	}[w.attributes.GetResource().Resource]
	if finalizer == "" || w.attributes.GetOperation() != admission.Create {
		return nil
	}
	o, err := meta.Accessor(w.obj)
	if err == nil && !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	}
	return err
}

// check lets the plugins refuse a write.
func (p *Plugins) check(w write) error {
	if running := p.chain(); running != nil {
		return running.Validate(w.ctx, w.attributes, scheme)
	}
	return nil
}

func (p *Plugins) chain() *chain {
	if p == nil {
		return nil
	}
	return p.running.Load()
}
