import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { envoyExtensions } from "../../stories/envoy_extensions.ts";

envoyExtensions(DevMesh);
