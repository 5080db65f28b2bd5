package cluster_test

import (
	"regexp"
	"testing"

	"lameduck/e2e/cluster/part"
	"lameduck/e2e/manifest"
	"lameduck/manifests/inject"
)

// TestInjectMakesWhatThePolicyMakes: the API server has the same pod whether inject or the admission policy has added
// lameduck, down to each default. In the labelled namespace the policy sees both, and leaves alone what inject has made.
func TestInjectMakesWhatThePolicyMakes(t *testing.T) {
	t.Parallel()
	chance := regexp.MustCompile(`kube-api-access-\w+`) // the token's volume has a random name
	for _, a := range manifest.Admissions() {
		t.Run(a.Name, func(t *testing.T) {
			pod, _, err := inject.Stream([]byte(a.Pod()), map[string]string{"image": part.LameduckImage})
			if err != nil {
				t.Fatal(err)
			}
			byInject := chance.ReplaceAllString(admitted(t, string(pod)), "token")
			if byPolicy := chance.ReplaceAllString(admitted(t, a.Pod()), "token"); byInject != byPolicy {
				t.Errorf("inject makes\n%s\nthe policy\n%s", byInject, byPolicy)
			}
		})
	}
}
