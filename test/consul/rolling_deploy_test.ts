import { SERVERS } from "../kit/cluster.ts";
import { CONSUL } from "../kit/consul.ts";
import { rollingDeploy } from "../stories/rolling_deploy.ts";

for (const agents of [CONSUL, SERVERS]) {
  rollingDeploy(agents, { register: false });
  rollingDeploy(agents, { register: true });
}
