import { CONSUL } from "../kit/mesh/consul.ts";
import { SERVERS } from "../kit/mesh/cluster.ts";
import { otherCluster } from "../stories/other_cluster.ts";

otherCluster(CONSUL);
otherCluster(SERVERS);
// The agent stays, and its servers are others.
otherCluster({ start: (options) => CONSUL.start({ ...options, clientAgent: true }) });
