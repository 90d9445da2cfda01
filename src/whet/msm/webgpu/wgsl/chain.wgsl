// A chain of ${length} field operations in every thread, each on the result of the one before: what an operation costs.

//# import multiply
//# if operation == invert
//# import generated/inverse
//# end

@group(0) @binding(0) var<storage, read_write> values: array<Fe>;

@compute @workgroup_size(${workgroup}) fn chain(@builtin(global_invocation_id) id: vec3<u32>) {
    var a = values[id.x];
    let b = a;
    var i = 0u;
    loop {
        //# if operation == invert
        a = fe_inv(a);
        //# else
        a = fe_mul(a, b);
        //# end
        continuing {
            i++;
            break if i == ${length}u;
        }
    }
    values[id.x] = a;
}
