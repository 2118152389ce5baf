module causeway.test/runc-nores

go 1.26
