import { DevMesh } from "../../kit/dev_mesh.ts";
import { resolver } from "../../stories/resolver.ts";

resolver(DevMesh);
