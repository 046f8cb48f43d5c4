import { CONSUL } from "../kit/mesh/consul.ts";
import { upstreamPlugins } from "../stories/upstream_plugins.ts";

upstreamPlugins(CONSUL);
