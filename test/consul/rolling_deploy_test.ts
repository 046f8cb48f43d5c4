import { SERVERS } from "../kit/mesh/cluster.ts";
import { CONSUL } from "../kit/mesh/consul.ts";
import { rollingDeploy } from "../stories/rolling_deploy.ts";

for (const agents of [CONSUL, SERVERS]) {
  rollingDeploy(agents, { register: false });
  rollingDeploy(agents, { register: true });
}
