package owner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

var errDown = errors.New("down")

// clientAs returns a client whose API server says that we are user, or fails with err.
func clientAs(user authenticationv1.UserInfo, err error) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{
			Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: user},
		}, err
	})
	return client
}

func TestOf(t *testing.T) {
	cases := map[string]struct {
		reason  string
		user    authenticationv1.UserInfo
		err     error
		want    *metav1ac.OwnerReferenceApplyConfiguration
		wantErr error
	}{
		"ServiceAccount": {
			reason: "In the cluster, the owner is the account of the Pod.",
			user:   authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system:rollcall", UID: "1-2-3"},
			want: metav1ac.OwnerReference().
				WithAPIVersion("v1").WithKind("ServiceAccount").WithName("rollcall").WithUID("1-2-3"),
		},
		"OtherNamespace": {
			reason:  "An owner cannot be in another namespace.",
			user:    authenticationv1.UserInfo{Username: "system:serviceaccount:default:rollcall", UID: "1-2-3"},
			wantErr: ErrNotServiceAccount,
		},
		"NamespacePrefix": {
			reason:  "A namespace whose name begins alike is another one.",
			user:    authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system-2:rollcall", UID: "1-2-3"},
			wantErr: ErrNotServiceAccount,
		},
		"User": {
			reason:  "A person owns nothing.",
			user:    authenticationv1.UserInfo{Username: "admin", UID: "1-2-3"},
			wantErr: ErrNotServiceAccount,
		},
		"NoUID": {
			reason:  "A reference without a UID would be refused.",
			user:    authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system:rollcall"},
			wantErr: ErrNotServiceAccount,
		},
		"Down": {
			reason:  "An API server that does not answer is worth another try.",
			err:     errDown,
			wantErr: errDown,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Of(t.Context(), clientAs(tc.user, tc.err), "rollcall-system")
			if diff := cmp.Diff(tc.wantErr, err, cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s\nOf(...): -want error, +got error:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\nOf(...): -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAdoptLease(t *testing.T) {
	user := authenticationv1.UserInfo{Username: "system:serviceaccount:rollcall-system:rollcall", UID: "1-2-3"}
	client := clientAs(user, nil)
	for range 2 { // The second time nothing changes.
		if err := AdoptLease(t.Context(), client, "rollcall-system", "rollcall"); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := client.CoordinationV1().Leases("rollcall-system").Get(t.Context(), "rollcall", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ServiceAccount", Name: "rollcall", UID: "1-2-3"}}
	if diff := cmp.Diff(want, lease.OwnerReferences); diff != "" {
		t.Errorf("AdoptLease(...): owners: -want, +got:\n%s", diff)
	}
}
