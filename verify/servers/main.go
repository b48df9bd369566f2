// Command apiserver serves core/v1 ConfigMaps, Pods, Secrets, Nodes and Namespaces with the
// k8s.io/apiserver generic server, and custom resources with k8s.io/apiextensions-apiserver. These
// are the registry, watch cache and etcd storage of kube-apiserver, without its authentication,
// admission and validation of core/v1. It is not kube-apiserver.
//
//	apiserver --etcd-servers=… --secure-port=…   the server
//	apiserver etcd …                             etcd, with etcd's own flags
package main

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/util/compatibility"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "etcd" {
		etcdmain.Main(os.Args[1:])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatalf("apiserver: %v", err)
	}
}

func run(ctx context.Context) error {
	running := options.NewServerRunOptions()
	serving := options.NewSecureServingOptions()
	// Objects are stored as protobuf, as in kube-apiserver. The deserializer also reads JSON, so a
	// test can seed a collection by writing JSON to etcd.
	codec := codecs.CodecForVersions(protobuf.NewSerializer(scheme, scheme), codecs.UniversalDeserializer(),
		corev1.SchemeGroupVersion, internalVersion)
	etcd := options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", codec))
	running.AddUniversalFlags(pflag.CommandLine)
	serving.AddFlags(pflag.CommandLine)
	etcd.AddFlags(pflag.CommandLine)
	pflag.Parse()

	cfg := genericapiserver.NewConfig(codecs)
	cfg.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	if err := running.Complete(); err != nil {
		return err
	}
	if err := running.ApplyTo(cfg); err != nil {
		return err
	}
	withLoopback := options.SecureServingOptionsWithLoopback{SecureServingOptions: serving}
	if err := withLoopback.ApplyTo(&cfg.SecureServing, &cfg.LoopbackClientConfig); err != nil {
		return err
	}
	cfg.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	cfg.LegacyAPIGroupPrefixes.Insert("/api")
	cfg.SkipOpenAPIInstallation = true
	cfg.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, openapinamer.NewDefinitionNamer(scheme))
	custom, err := customResources(*cfg, *etcd)
	if err != nil {
		return err
	}
	if err := etcd.ApplyTo(cfg); err != nil {
		return err
	}
	server, err := cfg.Complete(nil).New("apiserver", custom)
	if err != nil {
		return err
	}
	group := genericapiserver.NewDefaultAPIGroupInfo("", scheme, metav1.ParameterCodec, codecs)
	group.VersionedResourcesStorageMap["v1"], err = storages(cfg.RESTOptionsGetter)
	if err != nil {
		return err
	}
	if err := server.InstallLegacyAPIGroup("/api", &group); err != nil {
		return err
	}
	return server.PrepareRun().RunWithContext(ctx)
}
