import { DevMesh } from "../../kit/mesh/dev_mesh.ts";
import { resolver } from "../../stories/resolver.ts";

resolver(DevMesh);
