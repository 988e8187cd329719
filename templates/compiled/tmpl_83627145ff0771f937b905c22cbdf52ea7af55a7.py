from jinja2.runtime import LoopContext, Macro, Markup, Namespace, TemplateNotFound, TemplateReference, TemplateRuntimeError, Undefined, escape, identity, internalcode, markup_join, missing, str_join
name = 'differentiable.jinja'

def root(context, missing=missing):
    resolve = context.resolve_or_missing
    undefined = environment.undefined
    concat = environment.concat
    cond_expr_undefined = Undefined
    if 0: yield None
    l_0_differentiable = missing
    try:
        t_1 = environment.filters['length']
    except KeyError:
        @internalcode
        def t_1(*unused):
            raise TemplateRuntimeError("No filter named 'length' found.")
    pass
    def macro(l_1_k, l_1_saved):
        t_2 = []
        if l_1_k is missing:
            l_1_k = undefined("parameter 'k' was not provided", name='k')
        if l_1_saved is missing:
            l_1_saved = undefined("parameter 'saved' was not provided", name='saved')
        pass
        t_2.extend((
            str(environment.getattr(l_1_k, 'operator')),
            '.register_vmap(_over_batches(',
            str(environment.getattr(l_1_k, 'operator')),
            '))\n',
        ))
        if environment.getattr(l_1_k, 'gradient_results'):
            pass
            t_2.extend((
                str(environment.getattr(l_1_k, 'operator')),
                '_gradient.register_vmap(_over_batches(',
                str(environment.getattr(l_1_k, 'operator')),
                '_gradient))\n\n\nclass ',
                str(environment.getattr(l_1_k, 'function')),
                '(torch.autograd.Function):\n    """',
                str(environment.getattr(l_1_k, 'public')),
                ' with its derivative."""\n\n    generate_vmap_rule = True\n\n    @staticmethod\n    def forward(*arguments):\n        return ',
                str(environment.getattr(l_1_k, 'operator')),
                '(*arguments)\n\n    @staticmethod\n    def setup_context(ctx, inputs, output):\n        ctx.save_for_backward(*inputs[:',
                str(t_1(environment.getattr(l_1_k, 'tensors'))),
                ']',
                str(l_1_saved),
                ')\n        ctx.numbers = inputs[',
                str(t_1(environment.getattr(l_1_k, 'tensors'))),
                ':]\n\n    @staticmethod\n    def backward(ctx, *gradients):\n        # torch.compile cannot look into a function within a function, and does not need this one.\n        gradient = ',
                str(environment.getattr(l_1_k, 'operator')),
                '_gradient if torch.compiler.is_compiling() else ',
                str(environment.getattr(l_1_k, 'function')),
                'Gradient.apply\n        ',
                str(environment.getattr(l_1_k, 'unpacked')),
                ' = gradient(*gradients, *ctx.saved_tensors, *ctx.numbers)\n        return ',
                str(environment.getattr(l_1_k, 'placed')),
                '\n\n\nclass ',
                str(environment.getattr(l_1_k, 'function')),
                'Gradient(torch.autograd.Function):\n    """The derivative of ',
                str(environment.getattr(l_1_k, 'public')),
                ', which has none itself."""\n\n    generate_vmap_rule = True\n\n    @staticmethod\n    def forward(*arguments):\n        return ',
                str(environment.getattr(l_1_k, 'operator')),
                '_gradient(*arguments)\n\n    @staticmethod\n    def setup_context(ctx, inputs, output):\n        pass\n\n    @staticmethod\n    def backward(ctx, *gradients):\n        raise RuntimeError(\'the Triton kernels have no second derivative: use backend="generic"\')\n',
            ))
        return concat(t_2)
    context.exported_vars.add('differentiable')
    context.vars['differentiable'] = l_0_differentiable = Macro(environment, macro, 'differentiable', ('k', 'saved'), False, False, False, context.eval_ctx.autoescape)

blocks = {}
debug_info = '3=18&4=26&5=31&6=34&9=38&10=40&16=42&20=44&21=48&26=50&27=54&28=56&31=58&32=60&38=62'