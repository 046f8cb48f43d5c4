import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { upstreamPlugins } from "../../stories/upstream_plugins.ts";

upstreamPlugins(DevMesh);
