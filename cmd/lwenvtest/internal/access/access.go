// Package access says who asks a server, and what they may: it authenticates and authorizes the
// requests to a [lwtest.Server] as kube-apiserver does with --authorization-mode=RBAC. Users have
// client certificates, tokens of ServiceAccounts or static tokens, and may impersonate others. What
// they may is what the ClusterRoles, Roles and bindings of the server say, at once after each write
// of them. Reviews answer who somebody is and what they may.
//
// All that decides is kube-apiserver's own: the filters of requests and the authenticators of
// k8s.io/apiserver, and the evaluation of rules, the checks of escalation and the first roles of
// k8s.io/kubernetes. The package reads the objects for them.
package access

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/anonymous"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	authunion "k8s.io/apiserver/pkg/authentication/request/union"
	authx509 "k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/token/tokenfile"
	tokenunion "k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/go-lw/lw/lwtest"
)

// Options say whom a server knows. The zero Options know ServiceAccounts and nobody else.
type Options struct {
	// ClientCAs are the authorities whose client certificates say who asks: their common name is the
	// user, their organizations the groups. The TLS listener must ask for certificates, with
	// [crypto/tls.RequestClientCert]. Nil: certificates mean nothing.
	ClientCAs *x509.CertPool
	// Tokens are the users of static bearer tokens, as those of --token-auth-file.
	Tokens map[string]lwtest.User
	// Issuer is that of the tokens of ServiceAccounts, and their audience unless they ask for another;
	// default: https://kubernetes.default.svc.
	Issuer string
	// Key signs them; nil: a new one.
	Key crypto.Signer
	// Aggregate lets a ClusterRole with an aggregationRule grant what the roles that it selects do, as
	// one does whose rules the controller of aggregation has written. Without it such a role grants its
	// own rules alone, which are none at first: envtest has no controllers.
	Aggregate bool
}

// An Access knows users and what they may. Until Start, system:masters may do everything and others
// nothing. It is safe for concurrent use.
type Access struct {
	options  Options
	issuer   *issuer
	tokens   authenticator.Token
	requests authenticator.Request
	server   atomic.Pointer[lwtest.Server]

	mu    sync.Mutex
	rules *rules // the last ones
}

// New returns an Access.
func New(o Options) (*Access, error) {
	if o.Issuer == "" {
		o.Issuer = "https://kubernetes.default.svc"
	}
	a := &Access{options: o}
	var err error
	if a.issuer, err = newIssuer(o.Issuer, o.Key, a.account); err != nil {
		return nil, fmt.Errorf("lwenvtest: access: %w", err)
	}
	static := map[string]*user.DefaultInfo{}
	for token, u := range o.Tokens {
		static[token] = &user.DefaultInfo{Name: u.Username, UID: u.UID, Groups: u.Groups, Extra: u.Extra}
	}
	a.tokens = tokenunion.New(
		authenticator.WrapAudienceAgnosticToken(a.audiences(), tokenfile.New(static)), a.issuer,
	)
	var known []authenticator.Request
	if o.ClientCAs != nil {
		verify := authx509.DefaultVerifyOptions()
		verify.Roots = o.ClientCAs
		known = append(known, authx509.New(verify, authx509.CommonNameUserConversion))
	}
	known = append(known, bearertoken.New(a.tokens))
	a.requests = authunion.NewFailOnError(
		group.NewAuthenticatedGroupAdder(authunion.New(known...)), anonymous.NewAuthenticator(nil),
	)
	return a, nil
}

func (a *Access) audiences() authenticator.Audiences {
	return authenticator.Audiences{a.options.Issuer}
}

// Resources returns those of RBAC and of the reviews.
func (a *Access) Resources() []lwtest.Resource { return append(a.rbac(), a.reviews()...) }

// ServiceAccounts returns r, the Resource of ServiceAccounts, with the subresource token.
func (a *Access) ServiceAccounts(r lwtest.Resource) lwtest.Resource {
	r.Token = a.issuer.issue
	return r
}

// Start has the objects of s say what users may, and creates the roles and bindings that
// kube-apiserver begins with. s must serve what Resources returns.
func (a *Access) Start(s *lwtest.Server) error {
	a.server.Store(s)
	if err := bootstrap(s); err != nil {
		return fmt.Errorf("lwenvtest: access: %w", err)
	}
	return nil
}

// Handler returns a handler of the requests of users, of which those that are allowed go on to
// next with [lwtest.WithUser].
func (a *Access) Handler(next http.Handler) http.Handler {
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if info, ok := request.UserFrom(ctx); ok {
			ctx = lwtest.WithUser(ctx, lwtest.User{
				Username: info.GetName(), UID: info.GetUID(), Groups: info.GetGroups(), Extra: info.GetExtra(),
			})
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
	may := a.Authorizer()
	h = filters.WithAuthorization(h, may, scheme.Codecs)
	h = impersonation.WithConstrainedImpersonation(h, may, scheme.Codecs)
	h = filters.WithAuthentication(h, a.requests, filters.Unauthorized(scheme.Codecs), a.audiences(), nil)
	h = filters.WithWarningRecorder(h)
	return filters.WithRequestInfo(h, &request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	})
}

// Authorizer returns what says who may do what.
func (a *Access) Authorizer() authorizer.Authorizer { return authorizer.AuthorizerFunc(a.authorize) }
