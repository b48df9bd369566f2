package main

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver"
	crdoptions "k8s.io/apiextensions-apiserver/pkg/cmd/server/options"
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/webhook"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// customResources returns the server of CRDs and their objects, which serves what the server of cfg
// does not have. Its objects are stored beside those of etcd.
func customResources(cfg genericapiserver.Config, etcd options.EtcdOptions) (genericapiserver.DelegationTarget, error) {
	cfg.PostStartHooks = map[string]genericapiserver.PostStartHookConfigEntry{}
	cfg.MergedResourceConfig = apiserver.DefaultAPIResourceConfigSource()
	cfg.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions,
		openapinamer.NewDefinitionNamer(apiserver.Scheme, clientscheme.Scheme))
	etcd.SkipHealthEndpoints = true // those of the other server are enough
	etcd.StorageConfig.Codec = apiserver.Codecs.LegacyCodec(apiextensionsv1.SchemeGroupVersion)
	if err := etcd.ApplyTo(&cfg); err != nil {
		return nil, err
	}
	server, err := (&apiserver.Config{
		GenericConfig: &genericapiserver.RecommendedConfig{Config: cfg},
		ExtraConfig: apiserver.ExtraConfig{
			CRDRESTOptionsGetter: crdoptions.NewCRDRESTOptionsGetter(etcd, cfg.ResourceTransformers,
				cfg.StorageObjectCountTracker),
			MasterCount:         1,
			ServiceResolver:     webhook.NewDefaultServiceResolver(),
			AuthResolverWrapper: webhook.NewDefaultAuthenticationInfoResolverWrapper(nil, nil, cfg.LoopbackClientConfig, nil),
		},
	}).Complete().New(genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	return server.GenericAPIServer, nil
}
